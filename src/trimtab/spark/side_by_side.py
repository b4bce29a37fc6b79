"""Hands the outputs of a batch to their sinks: those that wait for a disk or for Kafka do so side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from trimtab.driver.happenings import HandOver
from trimtab.spark.sinks import Delivery, Sink

AT_ONCE = 8
"""How many outputs are handed over at the same time if sinks wait for others, such as servers."""
AT_ONCE_TO_DISK = 3
"""And if they only write to a disk here, where they mostly compute, and threads wait for each other.
Measured for 50 small parquet files: 46 ms in one thread, 35 ms in three, 52 ms in eight."""


def side_by_side(
    outputs: Sequence[HandOver], sinks: Mapping[str, Sequence[Sink]], hand_over: Callable[[HandOver], None]
) -> float:
    """Call `hand_over` for each output; `sinks` are those of each, by name. Returns how long all took, in seconds.

    Sinks that need the thread of the batch are called in it. Once a call has failed no further one begins, as each may
    wait long for the same servers; what it raised is raised when those under way have ended.
    """
    began_s, has_failed = time.perf_counter(), threading.Event()

    def attempt(output: HandOver) -> None:
        if has_failed.is_set():
            return
        try:
            hand_over(output)
        except BaseException:
            has_failed.set()
            raise

    apart = {
        each.name for each in outputs if all(sink.may_run_apart(each.outputs) for sink in sinks.get(each.name, ()))
    }
    is_near = all(sink.is_on_disk for name in apart for sink in sinks.get(name, ()))
    with ThreadPoolExecutor(AT_ONCE_TO_DISK if is_near else AT_ONCE, "trimtab-sink") as pool:
        under_way = [pool.submit(attempt, each) for each in outputs if each.name in apart]
        for each in outputs:
            if each.name not in apart:
                attempt(each)
    for ended in under_way:
        ended.result()
    return time.perf_counter() - began_s


def deliver(delivery: Delivery, sinks: Sequence[Sink]) -> None:
    """Give a batch's rows to the sinks of a query; the last one may take the files of the engines away."""
    for sink in sinks:
        sink.deliver(replace(delivery, is_last=sink is sinks[-1]))
