"""`intake` of a job file: how many rows a batch may take, of streams that trimtab reads itself."""

from __future__ import annotations

from trimtab.cli.toml import Section
from trimtab.control.intake import Intake
from trimtab.errors import JobError

NONE = "none"
"""How a job file writes None, which TOML doesn't have."""
ROWS = ("backlog_rows", "min_rows", "max_rows", "max_bytes", "first_rows")


def read_intake(settings: Section) -> Intake | None:
    """The intake; None: batches take all that there is. Mistakes are noted, and the default is returned instead."""
    if not isinstance(settings.values.get("intake"), dict):
        found = settings.word("intake", (NONE,))
        return None if found == NONE else Intake()
    section = settings.section("intake")
    assert section is not None
    batch_s = section.number("batch_s")
    rows = {name: section.number(name, whole=True) for name in ROWS}
    section.finish()
    given = {name: int(value) for name, value in rows.items() if value is not None}
    try:
        return Intake(batch_s=batch_s, **given)  # type: ignore[arg-type]  # the names are those of whole numbers
    except JobError as error:
        named = (word for word in error.message.split() if word in section.values)
        section.wrong(next(named, ""), error.message, error.hint)
    return Intake()
