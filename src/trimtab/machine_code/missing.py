"""What happens when a function is called for which there is no machine code.

Compiling takes seconds and holds the interpreter's lock, so it must not happen where a stream waits. A program that
isn't a job (`evaluate`, a notebook, the lab) compiles what it needs, as Numba does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class Missing(Enum):
    """What to do without machine code."""

    COMPILE = "compile"
    """Compile it, here and now."""

    PLAIN = "plain"
    """Run the function as plain Python, and note that machine code is wanted."""

    REFUSE = "refuse"
    """Raise `NotCompiledError`: the caller has something better to run than this function as plain Python."""


class NotCompiledError(Exception):
    """There is no machine code for a function, and it may not be compiled here."""


_missing: ContextVar[Missing] = ContextVar("trimtab_missing_machine_code", default=Missing.COMPILE)


def when_missing() -> Missing:
    """What this thread does, at this point, where machine code is missing."""
    return _missing.get()


@contextmanager
def if_missing(choice: Missing) -> Iterator[None]:
    """Set what this thread does inside the block where machine code is missing."""
    before = _missing.set(choice)
    try:
        yield
    finally:
        _missing.reset(before)
