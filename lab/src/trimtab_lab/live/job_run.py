"""One run of a job over a prepared feed: the measures of every batch, the placement of key groups, and the output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.errors import BalanceError
from trimtab_lab.live.spark import shared_session

if TYPE_CHECKING:  # both import Spark
    from trimtab.deciding.decision_log import Entry
    from trimtab.deciding.policy import Balance
    from trimtab.driver.progress import BatchProgress

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

PATIENCE_S = 1_800.0
_STREAM, _QUERY = "feed", "found"
_FIRST_FILE_S = 1_700_000_000


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What is run: a query over the table `feed`, the number of engines, and the policy of balancing."""

    sql: str
    schema: str
    engines: int
    key_groups: int
    balance: Balance | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JobRun:
    """The result of a run.

    batches     one per file of the feed
    owners      (batches, key groups) the engine of each key group while a batch ran
    entries     the coordinator's log, the oldest first; empty without balancing
    found       the rows of the query's output
    checkpoint  the job's checkpoint after the run
    """

    batches: tuple[BatchProgress, ...]
    owners: Int64Array
    entries: tuple[Entry, ...]
    found: pa.Table
    checkpoint: Path

    @property
    def spans_s(self) -> Float64Array:
        """(batches,) the time that each took, from the end of the one before."""
        ends = np.array([batch.finished_at_s for batch in self.batches])
        return np.concatenate([[self.batches[0].batch_ms / 1e3], np.diff(ends)])

    @property
    def events(self) -> Int64Array:
        """(batches, engines) rows that each engine got."""
        return np.array([[engine.events for engine in batch.engines] for batch in self.batches], np.int64)

    def moved(self, batch: int) -> npt.NDArray[np.bool_]:
        """(key groups,) which were on another engine in the batch before."""
        if batch == 0:
            return np.zeros(self.owners.shape[1], np.bool_)
        return np.asarray(self.owners[batch] != self.owners[batch - 1])


def write_files(folder: Path, tables: Sequence[pa.Table]) -> Path:
    """Write a feed with one file per batch, each a second newer than the one before: Spark orders them by time."""
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        path = folder / f"{number:06d}.parquet"
        pq.write_table(
            table, path, row_group_size=max(1, -(-len(table) // 2))
        )  # two row groups, so that two cores can read a file
        os.utime(path, (_FIRST_FILE_S + number,) * 2)
    return folder


def run_job(plan: JobPlan, feed: Path, folder: Path, *, past: Path | None = None, close: bool = False) -> JobRun:
    """Run a job over all files of a feed, one per batch, as fast as possible.

    `past`: a checkpoint to continue from; it is copied, so that several runs may begin with the same one. `close`: the
    stream ends with the feed, so that its last rows are decided too (otherwise those depend on the placement); no other
    run can continue from its checkpoint.
    """
    from trimtab.api.job import Job
    from trimtab.deciding.coordinator import Coordinator

    if plan.balance is not None:
        Coordinator(plan.balance).warm()  # compiles now, or the first decisions would come too late
    spark = shared_session()
    checkpoint, answers = folder / "checkpoint", folder / "answers"
    if past is not None:
        shutil.copytree(past, checkpoint)
    job = Job(spark, checkpoint=str(checkpoint), engines=plan.engines, key_groups=plan.key_groups, balance=plan.balance)
    # Not the folder itself: a run that continues from another feed's checkpoint would be refused for it.
    files = str(feed / "*.parquet")
    stream = spark.readStream.schema(plan.schema).option("maxFilesPerTrigger", 1).parquet(files)
    job.stream(_STREAM, stream, event_time="ts")
    job.query(_QUERY, plan.sql).write("parquet", path=str(answers))
    run = job.start(available_now=True, close=close)
    try:
        if not run.await_termination(PATIENCE_S):
            raise BalanceError("lab.spark", f"a run didn't end within {PATIENCE_S:.0f} s", "look at the machine's load")
    finally:
        if run.is_active:
            run.stop()
    batches = tuple(batch for batch in run.history if batch.events)  # without the one that closes the stream
    numbers = [batch.batch for batch in batches]
    log = {entry.observed.batch: entry for entry in _log(checkpoint) if entry.observed.batch in numbers}
    # A job doesn't wait long for the log of its last decisions; where entries are missing, the last placement holds.
    placements = [log[number].observed.placement if number in log else run.placement[_STREAM] for number in numbers]
    owners = np.array([placement.owner for placement in placements], np.int64)
    entries = tuple(log[number] for number in sorted(log))
    return JobRun(batches, owners, entries, _rows(answers), checkpoint)


def _log(checkpoint: Path) -> Iterator[Entry]:
    from trimtab.deciding import decision_log
    from trimtab.state.files import Folder

    folder = Folder(str(checkpoint)).child("streams").child(_STREAM).child("decisions")
    return decision_log.read(folder)


def _rows(folder: Path) -> pa.Table:
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))] if folder.exists() else []
    return pa.concat_tables(tables) if tables else pa.table({})
