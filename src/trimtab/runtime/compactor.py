"""Merging of state runs beside the stream: planned after a commit, done by Spark tasks, taken up by a later commit.

A batch never waits for it, unless merging falls so far behind that reading state would suffer. Merged files are named
as of a batch that never comes, so that sweeping leaves them alone until a manifest names them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from trimtab.runtime import lost_workers
from trimtab.state.bundle import Bundle
from trimtab.state.checkpoint import segment_name
from trimtab.state.compaction import Merge, apply_merges, carry_out, plan_merges
from trimtab.state.files import Folder
from trimtab.state.manifest import Manifest, QueryState, Run, SegmentFile
from trimtab.state.segment import segment_of, write_segment

NEVER = 999_999_999_999
"""The batch in the names of merged files."""
MOST_SEQUENCES = 40
"""When so many batches' runs wait to be merged, the stream waits for the merge under way."""


@dataclass(frozen=True, slots=True)
class Work:
    """One merge, with all that a task needs to do it."""

    merge: Merge
    folder: Folder
    segments: Mapping[str, SegmentFile]
    incarnation: str


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge that was done: the runs it gave, and their file (none if nothing is left)."""

    merge: Merge
    runs: tuple[Run, ...]
    segment: SegmentFile | None


def run_merge(work: Work) -> Merged:
    """Do one merge; the file is nobody's until a manifest names it."""

    def opened(run: Run) -> Bundle:
        return segment_of(work.folder, work.segments[run.segment]).part(run.part)

    merge = work.merge
    pieces = carry_out(merge, opened)
    if not pieces:
        return Merged(merge, (), None)
    name = segment_name(NEVER, "m", work.incarnation)
    parts = {f"{merge.query}#{number}": bundle for number, (_, _, bundle) in enumerate(pieces)}
    file, sizes = write_segment(work.folder, name, parts)
    runs = tuple(
        Run(
            segment=name,
            part=part,
            sequence=merge.sequence,
            is_base=merge.to_base,
            first_group=first,
            behind_group=behind,
            slots=sizes[part].slots,
            keys=sizes[part].keys,
            size_bytes=sizes[part].size_bytes,
        )
        for part, (first, behind, _) in zip(parts, pieces, strict=True)
    )
    return Merged(merge, runs, file)


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
        """Merges that are done, to be taken up by the next commit; waits if too much waits to be merged.

        Raises what went wrong in a merge.
        """
        if self._under_way is None:
            return []
        if not self._under_way.done() and manifest is not None and not _is_piled_up(manifest):
            return []
        merged = self._under_way.result()
        self._under_way = None
        return merged

    def stop(self) -> None:
        """Wait for what is under way; nobody takes it up, so its files are swept when the job starts again."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, work: list[Work]) -> list[Merged]:
        """One task a merge, in the workers that the engines run in: they have all that it takes loaded."""

        def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                done = [pickle.dumps(run_merge(work[number])) for number in batch.column(0).to_pylist()]
                yield pa.record_batch({"merged": pa.array(done, pa.binary())})

        numbers = self._spark.range(0, len(work), 1, len(work))
        found = lost_workers.retried(lambda: numbers.mapInArrow(merge, "merged binary").collect())
        return [pickle.loads(row.merged) for row in found]


def take_up(
    queries: Mapping[str, QueryState], merged: Sequence[Merged]
) -> tuple[dict[str, QueryState], list[SegmentFile]]:
    """The queries' runs after some merges, and the files that came with them."""
    after = dict(queries)
    files = []
    for name, query in queries.items():
        own = [each for each in merged if each.merge.query == name]
        if own:
            runs = apply_merges(query.runs, [(each.merge, each.runs) for each in own])
            after[name] = QueryState(fingerprint=query.fingerprint, runs=runs, sql=query.sql)
            files += [each.segment for each in own if each.segment is not None]
    return after, files


def _is_piled_up(manifest: Manifest) -> bool:
    return any(
        len({run.sequence for run in query.runs if not run.is_base}) > MOST_SEQUENCES
        for query in manifest.queries.values()
    )
