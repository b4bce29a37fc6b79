"""Batches as numbers of a result."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.results import Number
from benchmarks.spark.session import Batch


def number(values: Sequence[float], unit: str) -> Number:
    """The median of some values, with their spread."""
    return Number(statistics.median(values), min(values), max(values), unit, len(values))


def trigger(batches: Sequence[Batch], warm_up: int) -> Number:
    """How long a batch takes, without the first `warm_up` ones."""
    return number([batch.trigger_ms for batch in batches[warm_up:]], "ms")


def rate(batches: Sequence[Batch], warm_up: int) -> Number:
    """Events a second, batch by batch, without the first `warm_up` ones."""
    return number([1000 * batch.rows / batch.trigger_ms for batch in batches[warm_up:]], "events/s")


def ratio(above: Number, below: Number) -> Number:
    """One median over the other; the spread is from the smallest to the largest possible ratio."""
    return Number(above.value / below.value, above.low / below.high, above.high / below.low, "x", above.rounds)
