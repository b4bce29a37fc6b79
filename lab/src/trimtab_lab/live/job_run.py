"""One run of a job over a prepared feed: what every batch measured, where key groups were, and what was found."""

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

if TYPE_CHECKING:  # both bring Spark
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
    """What is run: a query in which the feed is called `feed`, on so many engines, balanced in this way."""

    sql: str
    schema: str
    engines: int
    key_groups: int
    balance: Balance | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JobRun:
    """What a run left.

    batches     one a file of the feed
    owners      (batches, key groups) the engine of each key group while a batch ran
    entries     the coordinator's log, the oldest first; none if nothing was balanced
    found       the rows that the query gave
    checkpoint  where the job stopped
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
        """(key groups,) which were elsewhere in the batch before."""
        if batch == 0:
            return np.zeros(self.owners.shape[1], np.bool_)
        return np.asarray(self.owners[batch] != self.owners[batch - 1])


def write_files(folder: Path, tables: Sequence[pa.Table]) -> Path:
    """A feed of a file a batch, each a second newer than the one before, which is how Spark tells their order."""
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        path = folder / f"{number:06d}.parquet"
        pq.write_table(table, path, row_group_size=max(1, -(-len(table) // 2)))  # two, or one core would read it all
        os.utime(path, (_FIRST_FILE_S + number,) * 2)
    return folder


def run_job(plan: JobPlan, feed: Path, folder: Path, *, past: Path | None = None, close: bool = False) -> JobRun:
    """Run a job over all files of a feed, a file a batch, as fast as it goes.

    `past`: a checkpoint that it goes on from; it is copied, so that several runs may begin with the same one. `close`:
    the stream ends with the feed, so that its last rows are decided: which ones are still open depends on where they
    are, and nothing could be gone on from.
    """
    from trimtab.api.job import Job
    from trimtab.deciding.coordinator import Coordinator

    if plan.balance is not None:
        Coordinator(plan.balance).warm()  # compiled now, or the first decisions would come too late
    spark = shared_session()
    checkpoint, answers = folder / "checkpoint", folder / "answers"
    if past is not None:
        shutil.copytree(past, checkpoint)
    job = Job(spark, checkpoint=str(checkpoint), engines=plan.engines, key_groups=plan.key_groups, balance=plan.balance)
    # Not the folder itself: a run that goes on from another feed's past would be refused for it.
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
    batches = tuple(batch for batch in run.history if batch.events)  # not the one that closes it
    numbers = [batch.batch for batch in batches]
    log = {entry.observed.batch: entry for entry in _log(checkpoint) if entry.observed.batch in numbers}
    # A job doesn't wait for long until its last decisions are logged; what is missing is the last placement's.
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
