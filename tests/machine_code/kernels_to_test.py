"""Kernels that are small enough to be compiled by tests, and what makes the compile process fail."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from trimtab.machine_code.kernel import kernel


@kernel
def double(x):  # type: ignore[no-untyped-def]
    return 2 * x


@kernel
def doubled_sum(values):  # type: ignore[no-untyped-def]
    total = 0
    for value in values:
        total += double(value)
    return total


@kernel
def factorial(n):  # type: ignore[no-untyped-def]
    return 1 if n <= 1 else n * factorial(n - 1)


def use_all(_: Any) -> None:
    doubled_sum(np.arange(3))


def fail(_: Any) -> None:
    raise RuntimeError("on purpose")


def die(_: Any) -> None:
    os._exit(7)
