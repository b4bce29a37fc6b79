"""Kernels over columns, each compiled once.

Numba compiles a function again for read-only arrays, and Arrow's arrays are read-only. If every array
is passed as read-only, there is one version, instead of one per combination, some of which would be
compiled in the middle of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from trimtab.machine_code import shelf
from trimtab.machine_code.kernel import is_numba_there, kernel
from trimtab.machine_code.missing import Missing, NotCompiledError, if_missing, want, when_missing

P = ParamSpec("P")
R = TypeVar("R")


def column_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that is called from Python: all its arrays are passed as read-only."""
    compiled = kernel(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs
        result: R = compiled(*(_frozen(arg) for arg in args))
        return result

    return call


def column_kernel_or(twin: Callable[P, R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As `column_kernel`, but where there is no machine code the twin runs, not the kernel as plain Python.

    The twin is as quick as Python can be: NumPy or a library. So a stream loses little until there is machine code.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        compiled = kernel(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            assert not kwargs
            frozen, choice = tuple(_frozen(arg) for arg in args), when_missing()
            # A stream doesn't even wait until Numba is imported.
            if choice is not Missing.PLAIN or (shelf.has(compiled.name) and is_numba_there()):
                try:
                    with if_missing(Missing.REFUSE if choice is Missing.PLAIN else choice):
                        result: R = compiled(*frozen)
                        return result
                except NotCompiledError:
                    if choice is Missing.REFUSE:
                        raise
            want(compiled.wanted_as, frozen)
            return twin(*args, **kwargs)

        return call

    return decorated


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value
