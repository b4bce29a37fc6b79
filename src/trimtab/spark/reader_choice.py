"""Who reads the rows of a stream's next batch, by what is known of the earlier ones: see `driver/who_reads.py`."""

from __future__ import annotations

from dataclasses import replace

from trimtab.driver.reading import Read
from trimtab.driver.who_reads import Reader, Several, who_reads
from trimtab.sources.source import is_near
from trimtab.spark.source_rows import SourceRows
from trimtab.worker.orders import Head


class ReaderChoice:
    """Chooses for one stream; `is_cluster`: Spark isn't local."""

    def __init__(self, *, is_cluster: bool) -> None:
        self._is_cluster = is_cluster
        self._before, self._several = Reader.DRIVER, Several()

    def next(self, read: Read, rows: SourceRows, engines: int) -> Reader:
        """Who reads the next batch, for this many engines."""
        is_here = is_near(rows.source) and not self._is_cluster
        is_possible = is_here and engines <= rows.spark.sparkContext.defaultParallelism  # so that all run at a time
        self._before = who_reads(read, self._before, replace(self._several, is_possible=is_possible))
        return self._before

    def took(self, head: Head) -> None:
        """Learn from the batch, how long its rows took to read."""
        self._several = self._several.after(head.events, sum(head.measures.reading_s.values()))
