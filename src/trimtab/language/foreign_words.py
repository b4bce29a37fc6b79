"""Functions of other systems for what is written in Spark's words here."""

from __future__ import annotations

_INSTEAD = {
    "tumble": "GROUP BY window(ts, '10 minutes')",
    "hop": "GROUP BY window(ts, '10 minutes', '5 minutes'), with the size before the slide",
    "session": "GROUP BY session_window(ts, '10 minutes')",
    **{
        f"{theirs}_{part}": f"{ours}.{bound} in the SELECT"
        for theirs, ours in (("tumble", "window"), ("hop", "window"), ("session", "session_window"))
        for part, bound in (("start", "start"), ("end", "end"), ("rowtime", "end"))
    },
}


def instead_of(function: str) -> str:
    """A hint with what to write instead of a function; empty: it isn't known from other systems.

    >>> instead_of("TUMBLE")
    "windows are written as in Spark: GROUP BY window(ts, '10 minutes')"
    """
    found = _INSTEAD.get(function.lower())
    return f"windows are written as in Spark: {found}" if found else ""
