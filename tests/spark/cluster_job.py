"""A job on a real cluster of two executors; one is released, and another one requested. Run by `test_assignment`."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import trimtab
from tests.spark.bench import RISES, SCHEMA, Bench, events
from tests.support.kept_source import KeptSource
from tests.support.spark_laws import SETTINGS
from trimtab.api.evaluate import evaluate
from trimtab.api.run import Run
from trimtab.sources.source import Partition, Range, Rows
from trimtab.spark.session import start_session
from trimtab.worker.whereabouts import this_executor
from trimtab_lab.live.cluster import Cluster

PATIENCE_S = 180.0
POSITIVE = RISES.replace("FROM t MATCH", "FROM (SELECT * FROM t WHERE x > 0) MATCH")


def file(number: int) -> pa.Table:
    """A row for each of eight keys, most of which rise, and one that the query leaves out."""
    rows = [(key, float(number), 1 + (number * (key + 1)) % 5) for key in range(8)]
    return events(*rows, (99, number + 0.5, -1))


def wait(until: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, f"still no {what}"
        time.sleep(0.05)


def has_run(run: Run, batches: int) -> Callable[[], bool]:
    return lambda: run.progress.batches >= batches or not run.is_active


class Trial:
    """The running job, fed file by file."""

    def __init__(self, spark: Any, folder: pathlib.Path) -> None:
        self.bench = Bench(spark, folder)
        self.files: list[pa.Table] = []
        job = self.bench.job()
        job.query("rises", POSITIVE).write(self.bench.keep("rises"))
        self.run: Run = job.start()
        self.homes = self.run._pipelines["t"].homes

    def batches(self, count: int) -> list[list[str]]:
        """Add `count` files, one after the other; returns the executors of each batch's engines."""
        for _ in range(count):
            self.files.append(file(len(self.files)))
            self.bench.stream.add(self.files[-1])
            wait(lambda: self.run.progress.batches >= len(self.files) or not self.run.is_active, "batch")
        assert self.run.is_active
        return [[engine.executor for engine in batch.engines] for batch in self.run.history[-count:]]

    def close(self) -> None:
        """Run to the end of the input, and compare the answer with that of `evaluate`."""
        assert self.run.progress.events == sum(table.num_rows for table in self.files), "rows left out are counted, too"
        self.run.stop()
        self.bench.run(close=True, rises=POSITIVE)
        right = evaluate(POSITIVE, {"t": pa.concat_tables(self.files)}, event_time="ts").to_pylist()
        found = self.bench.rows("rises")
        assert sorted(map(str, found)) == sorted(map(str, right))
        assert len(right) > 20


def from_own_source(spark: Any, folder: pathlib.Path) -> list[list[str]]:
    """The executors of each batch's engines, of a job over a source that trimtab reads itself."""
    source = KeptSource(str(folder / "kept"), SCHEMA)
    source.add("a", file(0))
    job = trimtab.Job(spark, checkpoint=str(folder / "own"), key_groups=8, engines=2, warm=False, balance=None)
    job.stream("t", source, event_time="ts")
    job.query("rises", POSITIVE).write(lambda *_: None)
    run = job.start()
    for number in range(1, 7):
        wait(has_run(run, number), "batch")
        source.add("a", file(number))
    run.stop()
    run.await_termination()
    return [[engine.executor for engine in batch.engines] for batch in run.history]


@dataclass(frozen=True)
class SlowOnOne:
    """Rows that an executor takes its time to read."""

    rows: trimtab.Rate
    slow: str
    row_s: float = 20e-6

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def partitions(self) -> Mapping[str, Partition]:
        return self.rows.partitions()

    def latest(self) -> Mapping[str, int]:
        return self.rows.latest()

    def read(self, part: Range) -> Rows:
        if this_executor() == self.slow:
            time.sleep(self.row_s * (part.end - part.start))
        return self.rows.read(part)


def shares_of_reading(spark: Any, folder: pathlib.Path, slow: str) -> list[dict[str, float]]:
    """Which part of each batch every executor is to read, of a job whose rows one of them reads slowly."""
    source = SlowOnOne(trimtab.Rate(None, partitions=4, keys=50, rows=4_000_000), slow)
    intake = trimtab.Intake(min_rows=40_000, max_rows=40_000, first_rows=40_000)
    job = trimtab.Job(spark, checkpoint=str(folder / "shares"), engines=2, intake=intake, warm=False, balance=None)
    job.stream("t", source, event_time="ts", max_ahead=None)
    job.query("all", "SELECT k, COUNT(*) AS n FROM t GROUP BY k, window(ts, '1 second')").write(lambda *_: None)
    run = job.start()
    wait(has_run(run, 12), "batch")
    run.stop()
    run.await_termination()
    assert run.progress.late == run.progress.quarantined == 0
    return [dict(each.decision.intake.shares) for each in run.history if each.decision and each.decision.intake]


def main(url: str, folder: pathlib.Path) -> None:
    """Six batches in a row on two executors, then on one, then on two again."""
    path = {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}  # workers import the source's class
    spark = start_session("cluster job", url, {**SETTINGS, **Cluster().settings, **path})
    context: Any = spark.sparkContext
    trial = Trial(spark, folder)
    executors = trial.homes.executors
    wait(lambda: executors.slots == 2, "two executors")
    first = [each.id for each in executors.live()]
    at_home = trial.batches(6)
    assert sorted(at_home[0]) == first
    assert at_home == [at_home[0]] * 6, f"engines change executors: {at_home}"

    trial.homes.fit(1)
    wait(lambda: context._jsc.sc().getExecutorIds().size() == 1, "executor gone")
    (left,) = executors.live()
    assert left.id == at_home[0][0], "the one with the last engine goes"
    assert trial.batches(2) == [[left.id, left.id]] * 2

    trial.homes.fit(2)
    wait(lambda: executors.slots == 2, "executor coming")
    new = executors.live()[-1].id
    assert new not in first
    trial.batches(1)  # an executor that has just registered may not be offered tasks yet
    assert trial.batches(2) == [[left.id, new]] * 2
    trial.close()

    at_home = from_own_source(spark, folder)
    assert set(at_home[0]) == {left.id, new}
    assert at_home == [at_home[0]] * len(at_home), f"engines of the column way change executors: {at_home}"

    shares = shares_of_reading(spark, folder, slow=left.id)
    assert set(shares[-1]) == {left.id, new}
    assert shares[-1][left.id] < 0.4, f"the slow one reads as much as ever: {shares}"
    spark.stop()
    sys.stdout.write("all as it should be\n")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
