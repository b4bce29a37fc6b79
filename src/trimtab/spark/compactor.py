"""Merges state runs in the background: planned after a commit, done by Spark tasks, included in a later commit.

A batch never waits for that, unless so many runs wait to be merged that reading state would become slow. Merging only
saves time, so a merge that fails is planned again later, and the stream goes on.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from trimtab.spark import lost_workers
from trimtab.state.checkpoint import StreamFolders
from trimtab.state.compaction import Merge, plan_merges
from trimtab.state.manifest import Manifest
from trimtab.state.merging import Merged, Work, run_merges, together
from trimtab.state.sweep import sweep_orphans
from trimtab.worker.pauses import avoid_pauses

MOST_SEQUENCES = 40
"""When the runs of more batches than this wait to be merged, the stream waits for the merge under way."""
TOO_MANY_SEQUENCES = 4 * MOST_SEQUENCES
"""When merges fail until the runs of more batches than this wait, the error of the last one is raised."""
LONGEST_PAUSE = 32
"""How many batches pass at most before merges that failed are planned again."""
SWEEP_EVERY = 100
"""How many batches pass before the folders are searched for what repeated tasks have left."""
log = logging.getLogger("trimtab")


class Compactor:
    """Keeps one plan of merges under way at a time."""

    def __init__(self, spark: SparkSession, folders: StreamFolders, incarnation: str, epoch: int) -> None:
        self._spark, self._folders, self._incarnation, self._epoch = spark, folders, incarnation, epoch
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="trimtab-compactor")
        self._under_way: Future[list[Merged]] | None = None
        self._failures = 0  # of merges, one after the other
        self._not_before = 0  # the batch after which merges are planned again
        self._considered = 0

    def consider(self, manifest: Manifest, *, over_columns: bool = False) -> None:
        """Plan merges for this version, unless some are under way or have just failed.

        over_columns   whether the stream's engines run in `column_jobs`, so that merges find workers of that kind
        """
        if self._under_way is not None:
            return
        self._considered += 1
        if self._considered % SWEEP_EVERY == 0:
            with suppress(RuntimeError):  # the process is ending
                self._threads.submit(self._sweep)  # merges begin when it is done
        if manifest.batch < self._not_before:
            return
        merges = [
            merge
            for name, query in manifest.queries.items()
            for merge in plan_merges(name, query.runs, manifest.key_groups)
        ]
        if merges:
            work = [self._work(merge, manifest) for merge in merges]
            with suppress(RuntimeError):  # the process is ending
                self._under_way = self._threads.submit(self._run, work, over_columns)

    def _work(self, merge: Merge, manifest: Manifest) -> Work:
        files = {run.segment: manifest.segments[run.segment] for run in merge.runs}
        return Work(merge, self._folders.segments, files, self._incarnation, self._epoch)

    def finished(self, manifest: Manifest | None) -> list[Merged]:
        """The merges that are complete, for the next commit; waits for them if too many runs wait to be merged.

        Raises the error of a merge that failed only if far too many do.
        """
        if self._under_way is None:
            return []
        waiting = 0 if manifest is None else _waiting(manifest)
        if not self._under_way.done() and manifest is not None and waiting <= MOST_SEQUENCES:
            return []
        under_way, self._under_way = self._under_way, None
        try:
            merged = under_way.result()
        except Exception as error:
            if waiting > TOO_MANY_SEQUENCES or manifest is None:
                raise
            pause = min(2**self._failures, LONGEST_PAUSE)
            self._failures += 1
            self._not_before = manifest.batch + 1 + pause
            log.warning("merging state failed, and is tried again in %d batches: %s", pause, error)
            return []
        self._failures = 0
        return merged

    def stop(self) -> None:
        """Wait for merges under way. No commit includes them, so the next start deletes their files."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _sweep(self) -> None:
        try:
            sweep_orphans(self._folders, epoch=self._epoch)
        except Exception as error:  # the next start deletes what is left
            log.warning("files that repeated tasks have left were not deleted: %s", error)

    def _run(self, work: list[Work], over_columns: bool) -> list[Merged]:
        """Run a task for each group of merges, in the engines' workers, which have the code loaded.

        Spark has other workers for its RDDs than for its DataFrames; a new one would import for more than a second.
        """
        groups = together(work)

        def merged(numbers: Iterable[int]) -> Iterator[bytes]:
            avoid_pauses()
            for number in numbers:
                yield pickle.dumps(run_merges(groups[number]))

        def of_frame(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield pa.record_batch({"merged": pa.array(list(merged(batch.column(0).to_pylist())), pa.binary())})

        if over_columns:
            context = self._spark.sparkContext
            tasks: Any = context.parallelize(range(len(groups)), len(groups)).mapPartitions(merged)
            found = lost_workers.retried(tasks.collect)
        else:
            frame = self._spark.range(0, len(groups), 1, len(groups)).mapInArrow(of_frame, "merged binary")
            found = [row.merged for row in lost_workers.retried(frame.collect)]
        return [one for group in found for one in pickle.loads(group)]


def _waiting(manifest: Manifest) -> int:
    """How many batches have runs that wait to be merged, in the query that has most of them."""
    counts = (len({run.sequence for run in query.runs if not run.is_base}) for query in manifest.queries.values())
    return max(counts, default=0)
