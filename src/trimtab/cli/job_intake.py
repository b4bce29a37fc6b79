"""`intake` of a job file: how many rows a batch may take, of streams that trimtab reads itself."""

from __future__ import annotations

from trimtab.cli.toml import Section
from trimtab.control.intake import Intake
from trimtab.errors import JobError

NONE = "none"
"""How a job file writes None, which TOML doesn't have."""
MEASURES = ("batch_s", "latency_s", "free_memory_share")
ROWS = ("backlog_rows", "min_rows", "max_rows", "max_bytes", "first_rows", "excite")


def read_intake(settings: Section) -> Intake | None:
    """The intake; None: batches take all that there is. Mistakes are noted, and the default is returned instead."""
    if not isinstance(settings.values.get("intake"), dict):
        found = settings.word("intake", (NONE,))
        return None if found == NONE else Intake()
    section = settings.section("intake")
    assert section is not None
    measures = {name: section.number(name) for name in MEASURES}
    rows = {name: section.number(name, whole=True) for name in ROWS}
    gains = section.pair("gains")
    section.finish()
    whole = {name: int(value) for name, value in rows.items() if value is not None}
    try:
        return Intake(**measures, **whole, gains=gains)  # type: ignore[arg-type]  # mypy doesn't know which name is whose
    except JobError as error:
        named = (word for word in error.message.split() if word in section.values)
        section.wrong(next(named, ""), error.message, error.hint)
    return Intake()
