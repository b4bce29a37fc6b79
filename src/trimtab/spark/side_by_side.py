"""Hands the outputs of a batch to their sinks: those that only write files side by side, as each waits for the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from trimtab.driver.happenings import HandOver
from trimtab.spark.parquet_sink import ParquetSink
from trimtab.spark.sinks import Sink

AT_ONCE = 8
"""How many outputs are handed over at the same time."""


def side_by_side(
    outputs: Sequence[HandOver], sinks: Mapping[str, Sequence[Sink]], hand_over: Callable[[HandOver], None]
) -> float:
    """Call `hand_over` for each output; `sinks` are those of each, by name. Returns how long all took, in seconds.

    Raises what one of the calls has raised. Sinks that need the thread of the batch are called in it.
    """
    began_s = time.perf_counter()
    apart = [each.name for each in outputs if all(map(_only_writes, sinks.get(each.name, ())))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        under_way = [pool.submit(hand_over, each) for each in outputs if each.name in apart]
        for each in outputs:
            if each.name not in apart:
                hand_over(each)
        for done in under_way:
            done.result()
    return time.perf_counter() - began_s


def _only_writes(sink: Sink) -> bool:
    """Whether a sink runs no Spark jobs: with partitions, tasks share out what engines left."""
    return isinstance(sink, ParquetSink) and not sink.partition_by
