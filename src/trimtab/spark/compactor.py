"""Merges state runs in the background: planned after a commit, done by Spark tasks, included in a later commit.

A batch never waits for that, unless so many runs wait to be merged that reading state would become slow.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import SparkSession

from trimtab.spark import lost_workers
from trimtab.state.compaction import Merge, plan_merges
from trimtab.state.files import Folder
from trimtab.state.manifest import Manifest
from trimtab.state.merging import Merged, Work, run_merge

MOST_SEQUENCES = 40
"""When the runs of more batches than this wait to be merged, the stream waits for the merge under way."""


class Compactor:
    """Keeps one plan of merges under way at a time."""

    def __init__(self, spark: SparkSession, folder: Folder, incarnation: str) -> None:
        self._spark, self._folder, self._incarnation = spark, folder, incarnation
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="trimtab-compactor")
        self._under_way: Future[list[Merged]] | None = None

    def consider(self, manifest: Manifest) -> None:
        """Plan merges for this version, unless some are under way."""
        if self._under_way is not None:
            return
        merges = [
            merge
            for name, query in manifest.queries.items()
            for merge in plan_merges(name, query.runs, manifest.key_groups)
        ]
        if merges:
            self._under_way = self._threads.submit(self._run, [self._work(merge, manifest) for merge in merges])

    def _work(self, merge: Merge, manifest: Manifest) -> Work:
        files = {run.segment: manifest.segments[run.segment] for run in merge.runs}
        return Work(merge, self._folder, files, self._incarnation)

    def finished(self, manifest: Manifest | None) -> list[Merged]:
        """The merges that are complete, for the next commit; waits for them if too many runs wait to be merged.

        Raises the error of a merge that failed.
        """
        if self._under_way is None:
            return []
        if not self._under_way.done() and manifest is not None and not _is_piled_up(manifest):
            return []
        merged = self._under_way.result()
        self._under_way = None
        return merged

    def stop(self) -> None:
        """Wait for merges under way. No commit includes them, so the next start deletes their files."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, work: list[Work]) -> list[Merged]:
        """Run one task per merge, in the engines' workers, which have the code loaded."""

        def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                done = [pickle.dumps(run_merge(work[number])) for number in batch.column(0).to_pylist()]
                yield pa.record_batch({"merged": pa.array(done, pa.binary())})

        numbers = self._spark.range(0, len(work), 1, len(work))
        found = lost_workers.retried(lambda: numbers.mapInArrow(merge, "merged binary").collect())
        return [pickle.loads(row.merged) for row in found]


def _is_piled_up(manifest: Manifest) -> bool:
    return any(
        len({run.sequence for run in query.runs if not run.is_base}) > MOST_SEQUENCES
        for query in manifest.queries.values()
    )
