"""A hash of everything that a function's machine code depends on: the same fingerprint means the same machine code.

Numba's own cache compares the time stamp of one file. That misses a change in a called function of another file, and
is of no use on another machine, whose copy of the file has another time stamp.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from types import CodeType, FunctionType, ModuleType
from typing import Any

_PACKAGES = ("numba", "llvmlite", "numpy")
Inner = Callable[[Any], FunctionType | None]
"""Returns the function of a value that is compiled along with the one that refers to it, None for all other values."""


@cache
def versions() -> str:
    """The versions of everything that turns a function into machine code, and of what it then calls."""
    python = ".".join(map(str, sys.version_info[:3]))
    return " ".join([f"python {python}", *(f"{name} {version(name)}" for name in _PACKAGES)])


def fingerprint(function: FunctionType, inner: Inner) -> str:
    """The hash of a function's code and of all that it refers to."""
    known: dict[FunctionType, int] = {}
    digest = hashlib.sha256(versions().encode())
    for part in _parts(function, inner, known):
        digest.update(part.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _parts(function: FunctionType, inner: Inner, known: dict[FunctionType, int]) -> Iterator[str]:
    if function in known:
        yield f"the function numbered {known[function]}"
        return
    known[function] = len(known)
    yield function.__module__  # machine code looks its module up when it is loaded
    yield from _code_parts(function.__code__)
    yield repr(function.__defaults__)
    for cell in function.__closure__ or ():
        yield from _value_parts(cell.cell_contents, inner, known)
    for name in sorted(referred_names(function.__code__)):
        if name in function.__globals__:
            yield f"{name} is"
            yield from _value_parts(function.__globals__[name], inner, known)


def referred_names(code: CodeType) -> set[str]:
    """The names that code looks up outside itself, those of functions inside it included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= referred_names(constant)
    return names


def _code_parts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))  # the order of a set differs between processes
        else:
            yield repr(constant)


def _value_parts(value: Any, inner: Inner, known: dict[FunctionType, int]) -> Iterator[str]:
    function = inner(value)
    if function is not None:
        yield from _parts(function, inner, known)
    elif isinstance(value, ModuleType):
        yield value.__name__
    elif isinstance(value, type) or callable(value):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    else:
        yield f"{type(value).__qualname__} {value!r}"
