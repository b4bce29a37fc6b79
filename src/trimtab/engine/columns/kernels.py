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

from trimtab.machine_code.kernel import kernel

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


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value
