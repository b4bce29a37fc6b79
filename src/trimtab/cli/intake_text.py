"""The limit of a batch's intake as people read it."""

from __future__ import annotations

from trimtab.cli.texts import duration_text, number_text
from trimtab.control.intake import Held, IntakeLimit

_NAMES = {
    Held.BATCH_TIME: "batch time",
    Held.LATENCY: "latency",
    Held.BACKLOG: "backlog",
    Held.FREE_MEMORY: "free memory",
}


def intake_text(limit: IntakeLimit) -> str:
    """The limit, and what it holds: the measure, and its reference.

    >>> intake_text(IntakeLimit(rows=25_000, held="batch_s", reference=0.5, measure=0.52))
    'up to 25,000 rows: batch time 520 ms of 500 ms'
    >>> intake_text(IntakeLimit(rows=10_000, held="backlog_rows", reference=0.0, is_saturated=True))
    'up to 10,000 rows (a bound): backlog unknown of 0 rows'
    """
    held = Held(limit.held)
    measure = "unknown" if limit.measure is None else value_text(held, limit.measure)
    bound = " (a bound)" if limit.is_saturated else ""
    return (
        f"up to {number_text(limit.rows)} rows{bound}: {_NAMES[held]} {measure} of {value_text(held, limit.reference)}"
    )


def reference_text(limit: IntakeLimit) -> str:
    """What is held, and at which value.

    >>> reference_text(IntakeLimit(rows=25_000, held="batch_s", reference=0.5))
    'a batch time of 500 ms'
    """
    held = Held(limit.held)
    return f"a {_NAMES[held]} of {value_text(held, limit.reference)}"


def value_text(held: Held, value: float) -> str:
    """A value of what is held, with its unit.

    >>> value_text(Held.BATCH_TIME, 0.5), value_text(Held.BACKLOG, 12_000.0), value_text(Held.FREE_MEMORY, 0.3)
    ('500 ms', '12,000 rows', '30 %')
    """
    match held:
        case Held.BATCH_TIME | Held.LATENCY:
            return duration_text(value * 1000)
        case Held.BACKLOG:
            return f"{number_text(round(value))} rows"
        case Held.FREE_MEMORY:
            return f"{value:.0%}".replace("%", " %")


def backlog_text(backlog: int | None) -> list[str]:
    """How many rows wait, as one part of a line; nothing if that isn't known.

    >>> backlog_text(1_200), backlog_text(None)
    (['1,200 rows wait'], [])
    """
    return [] if backlog is None else [f"{number_text(backlog)} row{' waits' if backlog == 1 else 's wait'}"]
