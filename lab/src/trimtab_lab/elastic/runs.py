"""Running orders on a Spark session, in the driver process. Imported only there, as it imports Spark."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq

import trimtab_lab.elastic.counting  # noqa: F401 - importing it registers the operator
from trimtab.api.job import Job
from trimtab.api.run import Run
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.policy import Balance, Scale
from trimtab.driver.progress import BatchProgress
from trimtab.spark.where.assignment import assign
from trimtab.spark.where.executors import Executors
from trimtab_lab.elastic.feeds import SCHEMA, counts_of, feed_of, rate_at, rows_of, write_feed
from trimtab_lab.elastic.orders import (
    KEY_GROUPS,
    KEYS,
    DayOrder,
    FeedOrder,
    MeasuredBatch,
    MeasuredEngine,
    Order,
    Outcome,
    Phase,
)
from trimtab_lab.routers.router import Int64Array
from trimtab_lab.workloads.key_streams import zipf_keys

STREAM, QUERY = "feed", "counts"
PATIENCE_S = 600.0
WRITE_S = 0.25
"""How often rows of a day are written."""
LOOK_S = 0.5
FIRST_ROWS = 100


class Runner:
    """Runs orders one after the other. `count_executors` counts the executors' processes; None: there are none."""

    def __init__(self, spark: Any, workers: int, count_executors: Callable[[], int] | None) -> None:
        self._spark, self._workers, self._count = spark, workers, count_executors
        self._executors = Executors(spark)
        # Otherwise the first run would have no decisions until its planner is loaded, and its first batch would have to
        # start Python workers.
        Coordinator(Balance()).warm()
        self.run(FeedOrder(engines=workers, phases=(Phase.even(2, 50 * workers, 0.5, 0),)))

    def run(self, order: Order) -> Outcome:
        """Run an order, beginning when all executors have started."""
        self._gather_executors()
        folder = Path(tempfile.mkdtemp(prefix="trimtab-lab-"))
        try:
            trial = Trial(self._spark, folder)
            if isinstance(order, DayOrder):
                return self._day(order, trial)
            return trial.feed(order, self._slow_host(order))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _gather_executors(self) -> None:
        if not self._executors.is_elastic:
            return
        self._executors.request(self._workers)
        until = time.monotonic() + PATIENCE_S
        while self._executors.slots < self._workers:
            if time.monotonic() > until:
                raise TimeoutError(f"{self._executors.slots} of {self._workers} executors started")
            time.sleep(0.05)

    def _slow_host(self, order: FeedOrder) -> str:
        """The executor that the engine will be on."""
        if order.slow_engine is None:
            return ""
        live = self._executors.live()
        return assign(order.engines, live, first=zlib.crc32(STREAM.encode()) % len(live))[order.slow_engine]

    def _day(self, order: DayOrder, trial: Trial) -> Outcome:
        counted: list[tuple[float, int]] = []
        with _repeating(LOOK_S, lambda: self._look(counted)):
            outcome = trial.day(order)
            time.sleep(order.linger_s)
        return Outcome(
            outcome.batches, outcome.keys, outcome.wrong_keys, "", outcome.began_s, outcome.sent, tuple(counted)
        )

    def _look(self, counted: list[tuple[float, int]]) -> None:
        if self._count is not None:
            counted.append((time.time(), self._count()))


class Trial:
    """One run in its own folder."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark, self._input, self._checkpoint = spark, folder / "input", folder / "checkpoint"
        self._found: list[pa.Table] = []

    def feed(self, order: FeedOrder, slow_host: str) -> Outcome:
        """Run over all files, one per batch."""
        tables = feed_of(order)
        write_feed(self._input, tables)
        measure = cast('Literal["busy", "events"]', order.measure)
        balance = Balance(measure=measure, max_moves=order.max_moves) if order.balanced else None
        job = self._job(order.engines, balance, None, split=order.split, slow_host=slow_host, files=1)
        began_s = time.time()
        run = job.start(available_now=True, close=True)
        self._await_end(run)
        return self._outcome(run, tables, slow_host=slow_host, began_s=began_s)

    def day(self, order: DayOrder) -> Outcome:
        """Write rows during the day; then process what is left, and compare the answer."""
        self._input.mkdir(parents=True)
        rule = Scale(max_engines=order.max_engines)
        job = self._job(order.engines, Balance(), rule)
        writer = Writer(order, self._input)
        writer.write_first()
        run = job.start(trigger=f"{order.interval_s} seconds")
        try:
            while run.is_active and not run.history:  # the first batch loads code, so the day begins after it
                time.sleep(0.05)
            writer.write_all(lambda: run.is_active)
        finally:
            run.stop()
        self._await_end(self._job(None, Balance(), None).start(available_now=True, close=True))
        return self._outcome(run, writer.tables, began_s=writer.began_s, sent=tuple(writer.sent))

    def _job(
        self,
        engines: int | None,
        balance: Balance | None,
        scale: Scale | None,
        *,
        split: str | None = None,
        slow_host: str = "",
        files: int = 1_000,
    ) -> Job:
        job = Job(
            self._spark,
            checkpoint=str(self._checkpoint),
            engines=engines,
            key_groups=KEY_GROUPS,
            balance=balance,
            scale=scale,
        )
        frame = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(self._input))
        job.stream(STREAM, frame, event_time="ts")
        sql = f"SELECT * FROM counted_at_a_cost(TABLE({STREAM}) PARTITION BY key ORDER BY ts, slow => '{slow_host}')"
        job.query(QUERY, sql, split=split).write(self._take)
        return job

    def _take(self, frame: Any, _batch: int) -> None:
        self._found.append(frame.toArrow())

    @staticmethod
    def _await_end(run: Run) -> None:
        if not run.await_termination(PATIENCE_S):
            run.stop()
            raise TimeoutError(f"a run took more than {PATIENCE_S:.0f} s")

    def _outcome(
        self,
        run: Run,
        tables: list[pa.Table],
        *,
        slow_host: str = "",
        began_s: float,
        sent: tuple[tuple[float, int], ...] = (),
    ) -> Outcome:
        right = counts_of(tables)
        reported = [row for table in self._found for row in table.to_pylist()]
        found = {row["key"]: (row["rows"], row["total"]) for row in reported}
        assert len(found) == len(reported), "a key was reported twice"
        wrong = sum(right.get(key) != found.get(key) for key in right.keys() | found.keys())
        batches = tuple(_measured(batch) for batch in run.history if batch.events)
        return Outcome(batches, len(right), wrong, slow_host, began_s, sent)


class Writer:
    """Writes the rows of a day at their times."""

    def __init__(self, order: DayOrder, folder: Path) -> None:
        self._order, self._folder = order, folder
        self._keys = zipf_keys(round(order.high_per_s * order.seconds), KEYS, order.exponent, order.seed)
        self.began_s = 0.0
        self.tables: list[pa.Table] = []
        self.sent: list[tuple[float, int]] = []

    def write_first(self) -> None:
        """Write a few rows before the day begins."""
        now_s = time.time()
        self._write(self._keys[-FIRST_ROWS:], now_s - WRITE_S, now_s)

    def write_all(self, goes_on: Callable[[], bool]) -> None:
        """Write until the day is over, or the job has ended."""
        self.began_s = time.time()
        at_s = lacking = 0.0
        used = 0
        while at_s < self._order.seconds and goes_on():
            time.sleep(max(0.0, self.began_s + at_s + WRITE_S - time.time()))
            lacking += rate_at(self._order, at_s) * WRITE_S
            count, lacking = int(lacking), lacking % 1.0
            now_s = time.time()
            self._write(self._keys[used : used + count], self.began_s + at_s, now_s)
            used, at_s = used + count, now_s - self.began_s

    def _write(self, keys: Int64Array, since_s: float, now_s: float) -> None:
        """Write rows with times from the end of the last file on, so that none is older than those before it."""
        table = rows_of(keys, since_s, now_s, self._order.wait_us, self._order.wait_us)
        path = self._folder / f"{len(self.tables):06d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        hidden.rename(path)
        self.tables.append(table)
        self.sent.append((now_s, len(keys)))


def _measured(batch: BatchProgress) -> MeasuredBatch:
    decision = batch.decision
    return MeasuredBatch(
        events=batch.events,
        batch_ms=batch.batch_ms,
        finished_s=batch.finished_at_s,
        moved=batch.moved,
        engines=tuple(MeasuredEngine(each.events, each.worked_ms, each.executor) for each in batch.engines),
        utilisation=None if decision is None else decision.utilisation,
        least_rstd=None if decision is None else decision.least_rstd,
        reason="" if decision is None else decision.reason,
    )


@contextmanager
def _repeating(every_s: float, do: Callable[[], None]) -> Iterator[None]:
    """Call `do` every `every_s` seconds, in a thread, while the block runs."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every_s):
            do()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
