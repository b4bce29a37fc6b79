"""The job that the crash law kills: `python -m tests.support.crash_job CHECKPOINT INPUT OUTPUT --master local[2]`.

It reads two streams, one file of each a batch (or topics of Kafka, and writes to topics then, too), moves keys and
changes its number of engines as it goes, by an eager coordinator and by order, and closes at the end. Started again
after a crash it goes on, perhaps with other queries beside those of `QUERIES`; exit code 0 means that all of the input
was taken and closed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from trimtab.api.job import Job, QueryHandle
from trimtab.api.run import Run
from trimtab.control.intake import Intake
from trimtab.deciding.policy import Balance, Scale
from trimtab.driver import who_reads
from trimtab.errors import JobError, StateError
from trimtab.sources.kafka import Kafka
from trimtab.spark import kafka_sink
from trimtab.spark.session import start_session
from trimtab.state import lock
from trimtab.worker.orders import EnginePlan

EVENT_TIME, DELAY_S = "ts", 4
SCHEMA = "k BIGINT, ts TIMESTAMP, x BIGINT"
KEY_GROUPS = 64
MOST_ENGINES = 5
EAGER = Balance(planner="flux", max_rstd=2.0, patience=1, period_batches=1, min_gain=0.0)
# A batch takes about as long as the interval, so that the coordinator now adds engines and now removes some.
NERVOUS = Scale(
    max_engines=MOST_ENGINES, low=30, target=35, high=40, cool_down_batches=0, cool_down_s=0.0, interval_s=0.4
)
STREAMS = ("ticks", "trades")
# Some leave rows out, so the newest event time has to be observed before that. Events of a key may have the same
# time: the order of their values makes the answer equal to that of `evaluate`, where rows arrive in another order.
QUERIES = {
    "quiet": """
        SELECT * FROM (SELECT k, ts, x FROM ticks WHERE x <> 13) MATCH_RECOGNIZE (
          PARTITION BY k ORDER BY ts, x
          MEASURES A.ts AS since, A.x AS x, COUNT(B.*) AS others
          PATTERN (A B* TIMEOUT) WITHIN INTERVAL '5' SECOND
          DEFINE A AS A.x >= 60, B AS B.x < 30
        )""",
    "sums": """
        SELECT k, ts, x, SUM(x) OVER
          (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '6' SECOND PRECEDING AND CURRENT ROW) AS recent
        FROM ticks WHERE x > 4""",
    "totals": """
        SELECT k, window.start AS at, COUNT(*) AS n, SUM(x) AS x FROM trades GROUP BY k, window(ts, '3 seconds')""",
}
SPLIT = "totals"
"""The query whose hot keys may be spread, in some starts."""
EXTRAS = {
    "copies": "SELECT k, ts, x FROM ticks WHERE x % 2 = 0",
    "rises": """
        SELECT * FROM trades MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, x MEASURES A.x AS low, LAST(B.x) AS high
          PATTERN (A B+) WITHIN INTERVAL '5' SECOND DEFINE B AS B.x > PREV(B.x))""",
}
"""Queries that come and go between starts, and disturb the others."""
LATE = "late"
BY_BATCH = "sums"
"""The query with a function as a second sink, which writes `sums-by-batch/`."""
ROWS_A_BATCH = 200
"""At most, where topics are read; files are a batch each."""
LEFT_BYTES, IN_DRIVER_ROWS = 2_000, 20
"""Where topics are written: beyond this, engines leave outputs in files, and tasks write to Kafka. About every second
batch has such an output."""
LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # the job is short: compile less
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the job to its end."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.crash_job", description=main.__doc__)
    parser.add_argument("checkpoint", help="a folder or a location in an object store")
    parser.add_argument("input", type=Path, help="a folder with one for each stream")
    parser.add_argument("output", type=Path)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--engines", type=int, help="by default as many as the checkpoint has")
    parser.add_argument("--extra", action="append", default=[], choices=list(EXTRAS), help="one more query")
    parser.add_argument("--changed", action="store_true", help="the extra patterns are other ones, and start afresh")
    parser.add_argument("--delay", type=int, default=DELAY_S, help="of both streams, in seconds")
    parser.add_argument("--split", action="store_true", help="spread hot keys")
    parser.add_argument("--lease", type=float, default=60.0, help="seconds until the lock of a dead job is free")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--kafka", metavar="SERVERS", help="read and write topics there, instead of files")
    parser.add_argument("--kafka-job", default="", help="the name of this job in those of its topics")
    parser.add_argument("--by-tasks", action="store_true", help="read topics by tasks, however small the batches are")
    parser.add_argument("--still", action="store_true", help="move nothing and keep the number of engines")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    lock.EXPIRE_S, lock.RENEW_S = options.lease, options.lease / 6
    settings = LOCAL_SETTINGS | dict(each.split("=", 1) for each in options.conf)
    if options.kafka:
        kafka_sink.SMALL = IN_DRIVER_ROWS
        EnginePlan.__init__.__defaults__ = (LEFT_BYTES,)
    if options.by_tasks:
        who_reads.SMALL_ROWS = 0
    spark = start_session("crash law", options.master, settings)
    try:
        run = _start(spark, options)
    except JobError as error:
        if error.code == "job.closed":
            return 0  # it was killed after its last commit
        raise
    done = dict.fromkeys(STREAMS, -1)
    while not run.await_termination(0.02):
        for stream, newest in run.progress.streams.items():
            if newest.batch > done[stream] and not options.still:
                done[stream] = newest.batch
                _disturb(run, stream, newest.batch)
    spark.stop()
    return 0


def input_topic(stream: str) -> str:
    """The topic that all jobs read as a stream."""
    return f"in-{stream}"


def output_topic(job: str, query: str) -> str:
    """The topic that a query of a job writes to."""
    return f"out-{job}-{query}"


def _stream(spark: Any, options: argparse.Namespace, name: str) -> Any:
    if options.kafka:
        return Kafka(options.kafka, input_topic(name), schema=SCHEMA)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(options.input / name))


def _write(query: QueryHandle, options: argparse.Namespace, name: str) -> None:
    if options.kafka and name in QUERIES:
        query.write("kafka", servers=options.kafka, topic=output_topic(options.kafka_job, name), key="k", writers=3)
    else:
        query.write("parquet", path=str(options.output / name))
    if name == BY_BATCH:
        query.write(_by_batch(options.output / f"{name}-by-batch"))


def _start(spark: Any, options: argparse.Namespace) -> Run:
    """Start the job; where the checkpoint is leased, the lease of a start that was killed has to expire first."""
    job = Job(
        spark,
        checkpoint=options.checkpoint,
        engines=options.engines,
        key_groups=KEY_GROUPS,
        warm=False,
        balance=None if options.still else EAGER,
        scale=None if options.still else NERVOUS,
        intake=Intake(first_rows=ROWS_A_BATCH, min_rows=ROWS_A_BATCH // 2, max_rows=ROWS_A_BATCH),
    )
    for name in STREAMS:
        stream = job.stream(
            name, _stream(spark, options, name), event_time=EVENT_TIME, delay=f"{options.delay} seconds"
        )
        stream.late("parquet", path=str(options.output / f"{name}-{LATE}"))
    within = "'4' SECOND" if options.changed else "'5' SECOND"
    extras = {name: EXTRAS[name].replace("'5' SECOND", within) for name in options.extra}
    for name, sql in (QUERIES | extras).items():
        split = "consistent" if options.split and name == SPLIT else None
        query = job.query(name, sql, split=split, reset=name in EXTRAS)
        _write(query, options, name)
    until_s = time.monotonic() + 2 * options.lease
    while True:
        try:
            return job.start(available_now=True, close=True)
        except StateError as error:
            if error.code != "state.locked" or time.monotonic() > until_s:
                raise
            time.sleep(0.5)


def _disturb(run: Run, stream: str, batch: int) -> None:
    """Move some key groups or change the number of engines now and then; which and when depends on the batch."""
    dice = random.Random(f"{stream} {batch}")
    match dice.randrange(8):  # these changes replace what the coordinator decided
        case 0:
            run.resize(dice.randint(1, MOST_ENGINES))
        case 1:
            engines = min(placement.engines for placement in run.placement.values())
            moves = {group: dice.randrange(engines) for group in dice.sample(range(KEY_GROUPS), 20)}
            try:
                run.move(moves)
            except JobError:
                run.resize(engines)  # a pending change may have fewer engines already


def _by_batch(folder: Path) -> Any:
    """A sink that keeps each batch in a file of its own; a batch that is repeated has to be the same."""

    def take(frame: Any, batch: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rows = sorted([str(value) for value in row.values()] for row in frame.toArrow().to_pylist())
        file, content = folder / f"{batch:06d}.json", json.dumps(rows)
        if file.exists():
            if file.read_text() != content:
                (folder / f"{batch:06d}.other").write_text(content)
                raise ValueError(f"batch {batch} came again with other rows: see {folder}")
            return
        under_way = file.with_suffix(".part")
        under_way.write_text(content)
        os.replace(under_way, file)

    return take


if __name__ == "__main__":
    sys.exit(main())
