"""Averages and variances from exact sums: the only rounding is in a handful of final operations."""

from __future__ import annotations

import numpy as np

from trimtab.engine.columns.arrays import FloatArray, Int64Array

SPLIT = 134217729.0  # 2**27 + 1: halves a double's 53 bits (Dekker 1971)


def exact_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The product rounded, and its exact rounding error (unless something over- or underflows)."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = a * b
        a_high = a * SPLIT - (a * SPLIT - a)
        b_high = b * SPLIT - (b * SPLIT - b)
        a_low, b_low = a - a_high, b - b_high
        error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.where(np.isfinite(product) & np.isfinite(error), error, 0.0)


def _exact_add(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sum rounded, and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def spread(
    counts: Int64Array, sums: tuple[FloatArray, FloatArray], squares: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """The sum of squared distances from the mean, from the sum and the sum of squares.

    Both come as two doubles, 106 bits: the difference below cancels, and with 53 bits a small
    spread around a large mean would be lost. NaN where a value was not finite.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        count = np.maximum(counts, 1).astype(np.float64)
        mean = sums[0] / count
        # The rounding error of the mean, so that mean + rest is the mean to 106 bits.
        product, error = exact_product(mean, count)
        rest = ((sums[0] - product) - error + sums[1]) / count
        # sum * (mean + rest), in two doubles
        head, tail = exact_product(sums[0], mean)
        tail = tail + sums[0] * rest + sums[1] * mean
        total, low = _exact_add(squares[0], -head)
        result = total + (low + (squares[1] - tail))
        # Rounding may give slightly less than zero. NaN stays: maximum keeps it.
        result = np.maximum(result, 0.0)
        return np.where(np.isfinite(sums[0]) & np.isfinite(squares[0]), result, np.nan)
