"""What happens when a function is called for which there is no machine code.

Compiling takes seconds and holds the interpreter's lock, so it must not happen where a stream waits. A program that
isn't a job (`evaluate`, a notebook, the lab) compiles what it needs, as Numba does by itself.

What ran as plain Python is noted, so that it is compiled in the background. A note has the function and the types of
its arguments; it is made, sent and compared without importing Numba.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

MAX_NOTES = 1_000
"""How many notes are kept at most, so that a function called with ever new types can't fill the memory."""


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


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array argument, as far as machine code depends on it."""

    dtype: np.dtype[Any]
    dimensions: int
    is_writable: bool
    is_contiguous: bool


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple, or a tuple with names, which is a type of its own."""

    kind: type[tuple[Any, ...]]
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A function and the types of its arguments: arrays and tuples by their types, plain values by an example.

    `function`: a module and a name in it, or the source of a generated function.
    """

    function: tuple[str, str] | str
    types: tuple[Any, ...]


def type_of(argument: Any) -> Any:
    """What machine code depends on in an argument. Raises TypeError for what can't be described."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return ArrayType(argument.dtype, argument.ndim, flags.writeable, flags.c_contiguous)
    if isinstance(argument, tuple):
        return TupleType(type(argument), tuple(type_of(each) for each in argument))
    if argument is None or isinstance(argument, bool | int | float | str | np.generic):
        return type(argument)() if argument is not None else None
    raise TypeError(f"no description of {type(argument)}")


def example_of(described: Any) -> Any:
    """An argument of a type."""
    if isinstance(described, ArrayType):
        dimensions, step = described.dimensions, 1 if described.is_contiguous else 2
        array = np.zeros((2 * step,) * dimensions, described.dtype)[(slice(None, None, step),) * dimensions]
        array.flags.writeable = described.is_writable
        return array
    if isinstance(described, TupleType):
        items = [example_of(each) for each in described.items]
        return tuple(items) if described.kind is tuple else described.kind(*items)
    return described


_lock = threading.Lock()
_notes: dict[Note, None] = {}


def want(function: tuple[str, str] | str, arguments: tuple[Any, ...]) -> None:
    """Note that a function ran as plain Python with these arguments."""
    try:
        note = Note(function, tuple(type_of(argument) for argument in arguments))
    except TypeError:
        return  # it can't be compiled in another process
    with _lock:
        if len(_notes) < MAX_NOTES:
            _notes[note] = None


def take_notes() -> tuple[Note, ...]:
    """The notes since the last call."""
    with _lock:
        taken = tuple(_notes)
        _notes.clear()
        return taken
