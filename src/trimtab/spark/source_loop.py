"""The batch loop of a stream that trimtab reads itself: it asks the source what there is, and runs batch after batch.

`Run` handles it like one of Spark's streaming queries, so it has the names of `StreamingQuery`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from pyspark.util import InheritableThread

from trimtab.driver.changed_source import StartAt, check_positions
from trimtab.driver.reading import (
    NOWHERE,
    Read,
    SourceReader,
    as_first_seen,
    beginnings,
    beginnings_to_keep,
    not_begun,
    with_beginnings,
    without_waiting,
)
from trimtab.sources.source import Partition, complete_s, identity_of, part_of, real_ends, rows_each, settle
from trimtab.spark.pipeline import Pipeline, StoppingError
from trimtab.spark.source_rows import SourceRows

POLL_S = 0.05
"""How long the loop waits before it asks a source again that had nothing new."""
LOOK_S = 10.0
"""How often the loop asks what partitions still have. New ones it finds sooner: the source names them with the ends."""


class SourceLoop:
    """Runs the batches of one stream until it is stopped, or has read all that was there (`available_now`).

    `interval_s`: how long after the begin of a batch the next one begins at the earliest; None: at once. `start_at`:
    where a stream begins that trimtab hasn't read itself so far.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        rows: SourceRows,
        *,
        interval_s: float | None,
        available_now: bool,
        start_at: StartAt = None,
    ) -> None:
        self._pipeline, self._rows, self._interval_s, self._available_now = pipeline, rows, interval_s, available_now
        self._source, self._start_at = rows.source, start_at
        known = pipeline.driver.known
        self._reader = SourceReader(rows_each(rows.source), NOWHERE if known is None else known.newest_us)
        self._partitions: Mapping[str, Partition] = {}
        self._looked_s: float | None = None
        self._stopping = threading.Event()
        # Spark's kind of thread, so that its jobs inherit the caller's scheduler pool and job tags.
        self._thread = InheritableThread(self._work, name="trimtab-loop", daemon=True)
        self._error: BaseException | None = None

    def start(self) -> SourceLoop:
        """Start the loop in a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the loop after the batch under way."""
        self._stopping.set()
        self._thread.join()

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as Spark has it
        """Whether the loop has ended, after this time at the latest. Raises the error that ended it."""
        self._thread.join(timeout)
        ended = not self._thread.is_alive()
        if ended and self._error is not None:
            raise self._error
        return ended

    def _work(self) -> None:
        try:
            self._begin()
            end = None
            if self._available_now:
                settle(self._source, self._stopping.wait)
                end = self._latest()
            while not self._stopping.is_set() and self._batch(end):
                pass
        except StoppingError:
            pass
        except BaseException as error:  # `awaitTermination` raises it
            self._error = error

    def _begin(self) -> None:
        """Finish the batch under way, and commit where partitions begin if a later start might not find it again."""
        ends = self._source.latest()  # asked first: what begins at its end then doesn't begin before that
        if (unfinished := self._pipeline.driver.unfinished) is not None:
            self._take(Read(unfinished.ranges))
        self._look()
        new = not_begun(self._partitions, self._positions, self._part_of)
        start_at = NOWHERE
        if isinstance(self._start_at, Mapping) and (new or not self._positions):
            of_others = {*self._positions, *self._partitions}.difference(new)
            start_at = {name: at for name, at in self._start_at.items() if name not in of_others}
            check_positions(start_at, new, self._source.latest())
        if (read := beginnings_to_keep(new, ends, start_at)).ranges:
            self._take(read)

    def _batch(self, end: Mapping[str, int] | None) -> bool:
        """Run a batch if there is something to read; False: `end` is reached."""
        began_s, asked_at_s = time.monotonic(), time.time()
        read = self._next_read(end)
        if end is None:  # else nothing is known of what has come since
            is_all = read.ended.issuperset(self._partitions)
            self._pipeline.is_caught_up(complete_s(self._source, asked_at_s), None if is_all else read.ended)
        if read.ranges:
            self._take(read)
        elif end is not None:
            return False
        else:
            self._pipeline.tick(self._rows.spark, self._rows.spark_schema)
        pause_s = POLL_S if self._interval_s is None and not read.ranges else self._interval_s or 0.0
        self._stopping.wait(max(0.0, began_s + pause_s - time.monotonic()))
        return True

    def _take(self, read: Read) -> None:
        head = self._pipeline.take_ranges(read)
        known = self._pipeline.driver.known
        newest_us = NOWHERE if known is None else known.newest_us
        self._reader.took(read.ranges, head.events, newest_us, head.measures.size_bytes)

    @property
    def _positions(self) -> Mapping[str, int]:
        return self._pipeline.driver.positions(identity_of(self._source))

    def _part_of(self, partition: str) -> str:
        return part_of(self._source, partition)

    def _next_read(self, end: Mapping[str, int] | None) -> Read:
        if self._looked_s is None or time.monotonic() >= self._looked_s + LOOK_S:
            self._look()
        latest = self._latest() if end is None else end
        positions = self._positions
        start_at = self._start_at if isinstance(self._start_at, Mapping) else NOWHERE
        begin = beginnings(positions, self._partitions, start_at)
        latest = without_waiting(latest, begin, lambda: real_ends(self._source))
        limit = self._pipeline.limit
        read = self._reader.next_read(begin, latest, None if limit is None else limit.rows)
        return with_beginnings(read, positions, begin)

    def _latest(self) -> Mapping[str, int]:
        """Where the partitions end; new ones are looked at before the watermark goes on without them."""
        latest = self._source.latest()
        while not latest.keys() <= self._partitions.keys() and not self._stopping.is_set():
            self._look()
            latest = self._source.latest()
        return latest

    def _look(self) -> None:
        """Find the partitions that there are."""
        found = self._source.partitions()
        is_first = self._looked_s is None
        before = not_begun(found, self._positions, self._part_of) if is_first else self._partitions
        self._partitions = as_first_seen(found, before)
        self._looked_s = time.monotonic()
        self._pipeline.know_partitions(self._partitions)
