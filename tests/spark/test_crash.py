"""The crash law in short: a few kills on `local[2]`. `python -m tests.support.crash` runs many more."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions

import trimtab
from tests.support.crash import CrashLaw, Plan
from tests.support.crash_answers import differences, expected, make_input


@pytest.mark.spark  # three times
def test_killing_drivers_and_workers_never_changes_the_answer(tmp_path: Path) -> None:
    make_input(tmp_path / "input", seed=3, files=10, rows=50)
    law = CrashLaw(tmp_path, random.Random(3), expected(tmp_path / "input"), report=print)
    plan = Plan(["python worker", "driver's jvm", "driver's python"])
    while plan and not law.tally.problems:
        law.run_job(plan)
    assert law.tally.problems == []
    assert law.tally.kills == {"driver's jvm": 1, "driver's python": 1, "python worker": 1}
    assert law.tally.verified > 0
    assert law.tally.decided["moved"] > 0, "an eager coordinator moves key groups all the while"


def test_a_row_that_is_lost_or_doubled_is_reported(tmp_path: Path) -> None:
    make_input(tmp_path / "input", seed=3, files=12, rows=60)
    right = expected(tmp_path / "input")
    assert all(rows for rows in right.values())
    assert differences(right, right) == []
    for name in right:
        row = next(iter(right[name]))
        lost, doubled = right[name].copy(), right[name].copy()
        lost[row] -= 1
        doubled[row] += 1
        assert differences(right, {**right, name: lost}) == [f"{name}: 1 missing, 0 too many: -{row}"]
        assert differences(right, {**right, name: doubled}) == [f"{name}: 0 missing, 1 too many: +{row}"]


def test_a_batch_that_is_retried_counts_the_newest_time_of_all_its_rows(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first try dies between two tasks of its scan, when Spark has read only the older rows."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    schema = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("x", pa.int64())])
    # The newest row of the first batch is one that no query wants; the last file's row is late because of it.
    for number, (seconds, x) in enumerate([(10, 1), (100, -1), (50, 1)]):
        table = pa.Table.from_pylist([{"k": 1, "ts": start + timedelta(seconds=seconds), "x": x}], schema)
        folder = tmp_path / "input"
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (number, number))
    died = tmp_path / "died"

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(2).to_pylist() == [-1] and not died.exists():
                time.sleep(2)  # the other task is done by then
                died.touch()
                os._exit(1)
            yield batch

    text = "k BIGINT, ts TIMESTAMP, x BIGINT"
    files = spark.readStream.schema(text).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "input"))
    frame = files.repartitionById(2, functions.expr("IF(x < 0, 1, 0)")).mapInArrow(die_once, text)
    job = trimtab.Job(spark, checkpoint=str(tmp_path / "checkpoint"), engines=2, key_groups=4, warm=False)
    job.stream("t", frame, event_time="ts")
    sums = "SELECT k, ts, sum(x) OVER (PARTITION BY k ORDER BY ts) AS s FROM t WHERE x > 0"
    job.query("some", sums).write("parquet", path=str(tmp_path / "output"))
    run = job.start(available_now=True, close=True)
    run.await_termination()
    assert died.exists()
    assert "a worker was lost" in caplog.text
    assert run.progress.late == 1
    assert pq.read_table(tmp_path / "output").column("ts").to_pylist() == [start + timedelta(seconds=10)]
