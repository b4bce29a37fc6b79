"""One compiled version per kernel.

Numba compiles a function once more for arrays that can't be written to, and Arrow's can't. Handing
every array over as read-only leaves one version, instead of one per combination, compiled in the
middle of a stream.
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
    """The kernel with all its arrays handed over read-only; for kernels called from Python."""

    @wraps(kernel)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs
        return kernel(*(_frozen(arg) for arg in args))  # type: ignore[call-arg]

    return call
