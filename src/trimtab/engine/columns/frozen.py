"""One compiled version per kernel.

Numba compiles a function again for read-only arrays, and Arrow's arrays are read-only. If every array
is passed as read-only, there is one version, instead of one per combination, some of which would be
compiled in the middle of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def frozen_arguments(kernel: Callable[P, R]) -> Callable[P, R]:
    """The kernel with all its arrays passed as read-only; for kernels called from Python."""

    @wraps(kernel)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs
        return kernel(*(_frozen(arg) for arg in args))  # type: ignore[call-arg]

    return call
