"""What tests of jobs share: a stream of files, a checkpoint, and functions that run a job over them."""

from __future__ import annotations

import datetime
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.spark_laws import FileStream
from trimtab.api.job import Job
from trimtab.api.run import Run
from trimtab.api.stream import StreamHandle

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "x": pa.int64()})
DAWN = datetime.datetime(2026, 1, 1)
KEY_GROUPS = 8
PATIENCE_S = 180.0

COUNTS = "SELECT k, COUNT(*) AS n, SUM(x) AS x FROM t GROUP BY k, window(ts, '10 seconds')"
RISES = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS a, B.x AS b
      PATTERN (A B) DEFINE B AS B.x > A.x)"""
SILENT = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x
      PATTERN (A TIMEOUT) WITHIN INTERVAL '5' SECOND)"""
COLUMNS = "SELECT k, x FROM t"


def events(*rows: tuple[int | None, float | None, int]) -> pa.Table:
    """Rows of a key, seconds after dawn, and a value."""
    times = [None if second is None else DAWN + datetime.timedelta(seconds=second) for _, second, _ in rows]
    return pa.table({"k": [k for k, _, _ in rows], "ts": times, "x": [x for _, _, x in rows]}, schema=SCHEMA)


class Bench:
    """Everything around the jobs of one test: `stream` is what they read as `t`, `given` what their queries put out."""

    def __init__(self, spark: Any, folder: pathlib.Path, schema: pa.Schema = SCHEMA) -> None:
        self.spark, self.folder = spark, folder
        self.checkpoint = folder / "checkpoint"
        self.stream = FileStream(folder / "t", spark, schema)
        self.given: dict[str, dict[int, list[dict[str, Any]]]] = {}
        self.calls: list[tuple[str, int]] = []

    def job(self, *, delay: str | None = None, **options: Any) -> Job:
        """A job with the stream `t`."""
        job, _ = self.job_and_stream(delay=delay, **options)
        return job

    def job_and_stream(self, *, delay: str | None = None, **options: Any) -> tuple[Job, StreamHandle]:
        """A job and its stream `t`, whose methods name sinks for bad rows."""
        settings: dict[str, Any] = {"key_groups": KEY_GROUPS, "warm": False, "engines": 2} | options
        job = Job(self.spark, checkpoint=str(self.checkpoint), **settings)
        return job, job.stream("t", self.stream.frame(), event_time="ts", delay=delay)

    def keep(self, query: str) -> Callable[[Any, int], None]:
        """A sink that keeps rows by batch."""

        def function(frame: Any, batch: int) -> None:
            self.calls.append((query, batch))
            self.given.setdefault(query, {})[batch] = frame.toArrow().to_pylist()

        return function

    def run(self, *tables: pa.Table, close: bool = False, options: Any = None, **queries: str) -> Run:
        """Add files, and run a job of these queries over them to its end."""
        for table in tables:
            self.stream.add(table)
        job = self.job(**(options or {}))
        for name, sql in queries.items():
            job.query(name, sql).write(self.keep(name))
        return finished(job, close=close)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """All rows that a query put out, batch after batch."""
        found = self.given.get(query, {})
        return [row for batch in sorted(found) for row in found[batch]]

    def parquet(self, name: str) -> list[dict[str, Any]]:
        """The rows in a folder of parquet files."""
        files = sorted((self.folder / name).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    @property
    def home(self) -> pathlib.Path:
        """Where the state of the stream is."""
        return self.checkpoint / "streams" / "t"

    def segments(self) -> set[str]:
        """The names of all files with state."""
        return {path.name for path in (self.home / "segments").glob("*.segment")}

    def manifests(self) -> list[pathlib.Path]:
        """The manifests, oldest first."""
        found = sorted((self.home / "manifests").glob("*.json"))
        return [path for path in found if "reserved_by" not in json.loads(path.read_bytes())["body"]]

    def manifest(self) -> dict[str, Any]:
        """The body of the newest manifest."""
        body: dict[str, Any] = json.loads(self.manifests()[-1].read_bytes())["body"]
        return body

    def forget_commit(self, batch: int) -> None:
        """Make Spark forget that it committed a batch."""
        commits = self.checkpoint / "spark" / "t" / "commits"
        for name in (f"{batch}", f".{batch}.crc"):
            (commits / name).unlink(missing_ok=True)


def finished(job: Job, *, close: bool = False) -> Run:
    """Run a job over the files that are there, to its end."""
    run = job.start(available_now=True, close=close)
    try:
        assert run.await_termination(PATIENCE_S), "a job over a few rows doesn't end"
    finally:
        if run.is_active:
            run.stop()
    return run
