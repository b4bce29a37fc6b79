"""CostEstimate: what a batch costs without rows and what each row adds, estimated anew after each batch.

Least squares with forgetting, in which one outlier counts little and two in a row count as a change.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORGETTING = 0.9
"""What older batches count after each one: about the last ten decide."""

NOISE = 0.1
"""The share by which batches with equally many rows differ from each other."""

OUTLIER = 3.0
"""A batch further from its prediction than this many standard deviations is an outlier."""

FIRST_OUTLIER = 0.5
"""The first outlier counts as this share of the way to where outliers begin. Of single slow batches, each then costs
about one batch near the reference, and not four; a change that lasts is answered a batch later."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """`cost = fixed + a_row * rows`, with the uncertainty of both numbers.

    fixed       what a batch costs without rows
    a_row       what a row adds
    variances   of `fixed`, of both together, and of `a_row`
    outlier     whether the last batch was an outlier: 1 above its prediction, -1 below, 0 none

    Both numbers are never less certain than for the first batch, of which half of the cost is taken to be fixed, give
    or take half. In a steady loop all batches have almost equally many rows: they tell the two numbers apart badly, and
    with plain forgetting the uncertainty, and with it the effect of noise, would grow without bounds.

    >>> estimate = CostEstimate.of(10_000, 0.21)
    >>> for rows in (20_000, 40_000, 80_000, 160_000):
    ...     estimate = estimate.updated(rows, 0.2 + 1e-6 * rows)
    >>> round(estimate.fixed, 2), round(estimate.a_row * 1e6, 1), round(estimate.a_row_at_most * 1e6, 1)
    (0.24, 0.7, 1.0)
    """

    fixed: float
    a_row: float
    variances: tuple[float, float, float]
    outlier: int = 0

    @classmethod
    def of(cls, rows: int, cost: float) -> CostEstimate:
        """The estimate after one batch, of at least one row and a cost above 0."""
        least = _first_variances(rows, cost)
        return cls(0.5 * cost, 0.5 * cost / rows, least).updated(rows, cost)

    def updated(self, rows: int, cost: float) -> CostEstimate:
        """The estimate after one more batch, of at least one row and a cost above 0."""
        fixed_variance, covariance, row_variance = self._forgotten(rows, cost)
        expected = self.expected(rows)
        surprise, outlier = cost - expected, 0
        spread = _spread((fixed_variance, covariance, row_variance), rows)
        bound = self._bound(rows, spread)
        if abs(surprise) > bound:
            outlier = 1 if surprise > 0 else -1
            if outlier == self.outlier:  # the second in a row: what was known is no longer so
                fixed_variance, covariance, row_variance = _first_variances(rows, cost)
                spread, outlier = fixed_variance + row_variance * rows**2, 0
            else:
                surprise = math.copysign(bound, surprise)
        # The Kalman filter of two constants.
        total = spread + (NOISE * max(cost, expected)) ** 2
        fixed_gain, row_gain = (fixed_variance + covariance * rows) / total, (covariance + row_variance * rows) / total
        variances = (
            fixed_variance - fixed_gain * (fixed_variance + covariance * rows),
            covariance - fixed_gain * (covariance + row_variance * rows),
            row_variance - row_gain * (covariance + row_variance * rows),
        )
        fixed, a_row = max(0.0, self.fixed + fixed_gain * surprise), max(0.0, self.a_row + row_gain * surprise)
        return CostEstimate(fixed, a_row, variances, outlier)

    def expected(self, rows: int) -> float:
        """What a batch with so many rows should cost."""
        return self.fixed + self.a_row * rows

    def believed(self, rows: int, cost: float) -> float:
        """What a batch's cost counts as for a controller, before the estimate is updated with it.

        A single slow batch says little, and the second one in a row says that something has changed.
        """
        expected, bound = self.expected(rows), self._bound(rows, _spread(self._forgotten(rows, cost), rows))
        return expected + FIRST_OUTLIER * bound if cost > expected + bound and self.outlier != 1 else cost

    @property
    def a_row_at_most(self) -> float:
        """What a row costs, plus a standard deviation: with a row that counts as too much, a controller is careful."""
        return self.a_row + math.sqrt(max(self.variances[2], 0.0))

    def as_json(self) -> dict[str, Any]:
        """The estimate as plain values."""
        return {**dataclasses.asdict(self), "variances": list(self.variances)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CostEstimate:
        """The estimate that `as_json` returned."""
        return cls(**{**values, "variances": tuple(values["variances"])})

    def _bound(self, rows: int, spread: float) -> float:
        """The distance from its prediction beyond which a cost is an outlier; `spread`: the prediction's variance."""
        return OUTLIER * math.sqrt(max(spread, 0.0) + (NOISE * self.expected(rows)) ** 2)

    def _forgotten(self, rows: int, cost: float) -> tuple[float, float, float]:
        """The variances with forgetting, and none above those of a first batch."""
        fixed, both, a_row = (each / FORGETTING for each in self.variances)
        most_fixed, _, most_a_row = _first_variances(rows, cost)
        # Scaled on both sides, so that they stay those of some two numbers.
        fixed_scale = math.sqrt(min(1.0, most_fixed / fixed)) if fixed > 0 else 1.0
        row_scale = math.sqrt(min(1.0, most_a_row / a_row)) if a_row > 0 else 1.0
        return fixed * fixed_scale**2, both * fixed_scale * row_scale, a_row * row_scale**2


def _spread(variances: tuple[float, float, float], rows: int) -> float:
    """The variance of the prediction for so many rows."""
    fixed, both, a_row = variances
    return fixed + 2 * both * rows + a_row * rows**2


def _first_variances(rows: int, cost: float) -> tuple[float, float, float]:
    return (0.5 * cost) ** 2, 0.0, (0.5 * cost / rows) ** 2
