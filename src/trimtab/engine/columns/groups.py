"""Rows by the numbers of their groups: a counting sort, and the first row of each group."""

from __future__ import annotations

import numpy as np

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.columns.kernels import column_kernel

LARGE = 50_000
"""From this many rows on, machine code saves more time than it takes to load Numba, if nothing else has loaded it."""


@column_kernel
def counting_order(codes: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
    """Sort by small whole numbers, ties in order. `numpy.argsort(kind="stable")` is the plain twin of the order.

    codes   (n,)        in [0, count)
    order   (n,)        the permutation
    starts  (count + 1) where each code starts in it
    """
    starts = np.zeros(count + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for i in range(count):
        starts[i + 1] += starts[i]
    place = starts.copy()
    order = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        order[place[codes[i]]] = i
        place[codes[i]] += 1
    return order, starts


def by_group(codes: Int64Array, count: int) -> Int64Array:
    """The order of `counting_order`, without machine code if there are few rows."""
    return np.argsort(codes, kind="stable") if len(codes) < LARGE else counting_order(codes, count)[0]


@column_kernel
def compiled_first_rows(codes: Int64Array, count: int) -> Int64Array:
    """See `first_rows`."""
    rows = np.full(count, -1, np.int64)
    for i in range(codes.size - 1, -1, -1):
        rows[codes[i]] = i
    return rows


def first_rows(codes: Int64Array, count: int) -> Int64Array:
    """The first row of every code in [0, count), or -1.

    >>> first_rows(np.array([2, 0, 2]), 3).tolist()
    [1, -1, 0]
    """
    if len(codes) >= LARGE:
        return compiled_first_rows(codes, count)
    rows = np.full(count, -1, np.int64)
    rows[codes[::-1]] = np.arange(len(codes))[::-1]  # of several writes to a code the last one wins
    return rows
