"""A query whose rows cost some microseconds of real work each: how usual a value is, by a density estimate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.keyed.description import KeyedOperator, Logic, Snapshot, operator

Float64Array = npt.NDArray[np.float64]

WIDTH = 0.02
CHUNK = 256
"""Rows at a time: what is computed of them fits a core's cache."""


@operator("unusual_values")
@dataclass(frozen=True)
class UnusualValues(KeyedOperator):
    """The values of `x`, from 0 to 1, that a kernel density estimate over fixed samples finds least usual.

    Every row takes `samples` exponentials, whatever its value is. State: how many rows the key had.
    """

    samples: int = 500
    most: float = 1e-9

    columns = ("n", "x")
    output = pa.schema([("n", pa.int64()), ("density", pa.float64()), ("seen", pa.int64())])
    state = pa.schema([("seen", pa.int64())])

    def open(self, snapshot: Snapshot | None) -> Logic:
        """Continue with the count of the snapshot."""
        return _Key(self, 0 if snapshot is None else snapshot["seen"])


@dataclass(slots=True)
class _Key:
    description: UnusualValues
    seen: int

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        """Estimate every row's density, and put out the unusual ones."""
        densities = density(rows.column("x").to_numpy(), self.description.samples)
        seen = self.seen + 1 + np.arange(rows.num_rows)
        self.seen += rows.num_rows
        unusual = densities < self.description.most
        numbers = rows.column("n").to_numpy()
        return pa.table([numbers[unusual], densities[unusual], seen[unusual]], schema=UnusualValues.output)

    def snapshot(self) -> Snapshot | None:
        """The count."""
        return {"seen": self.seen}


def density(values: Float64Array, samples: int) -> Float64Array:
    """The mean of a Gaussian kernel around each sample, at each value.

    >>> bool(density(np.array([0.5]), 200)[0] > 10 * density(np.array([0.02]), 200)[0])
    True
    """
    scaled, places = values / WIDTH, _places(samples)
    found = [np.exp(-((scaled[i : i + CHUNK, None] - places) ** 2)).mean(axis=1) for i in range(0, len(scaled), CHUNK)]
    return np.concatenate(found) if found else np.empty(0)


@cache
def _places(samples: int) -> Float64Array:
    """Samples of a normal distribution around 0.5, evenly by their rank."""
    ranks = (np.arange(samples) + 0.5) / samples
    return np.array([NormalDist(0.5, 0.12).inv_cdf(rank) for rank in ranks]) / WIDTH
