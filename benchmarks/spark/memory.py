"""The memory of a job that runs on and on: `python -m benchmarks.spark.memory --batches 2000`.

Every batch has some rows that are on time and a thousand that are late, which go to a sink. The driver's resident
memory, of its Python and of its JVM, is measured in the middle of the batches, and must not grow with their number.
The JVM takes its whole heap at the start: otherwise it takes more and more of it before it collects garbage, and that
would hide what grows. How much of the heap is in use after a collection is printed, too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trimtab
from benchmarks.spark.session import local_session
from benchmarks.spark.ticks import OPENING, SCHEMA, SPARK_SCHEMA

ON_TIME, LATE = 200, 1_000
FIRST = 200
"""The batch that the last one is compared with: caches are full by then."""
AROUND = 20
"""Each figure is the median over this many batches."""
SUMS = """
    SELECT symbol, ts, SUM(price) OVER
      (PARTITION BY symbol ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS recent
    FROM ticks"""


def write(folder: Path, batches: int) -> None:
    """A file for each batch, a second of the stream; late rows are an hour old."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(1)
    opening_us = round(OPENING.timestamp() * 1_000_000)
    for number in range(batches):
        now_us = opening_us + 1_000_000 * number
        ages_us = np.concatenate(
            [draw.integers(0, 1_000_000, ON_TIME), draw.integers(3_600_000_000, 3_700_000_000, LATE)]
        )
        columns = {
            "symbol": pa.array(draw.integers(0, 1_000, len(ages_us))),
            "ts": pa.array(now_us - ages_us, SCHEMA.field("ts").type),
            "price": pa.array(draw.random(len(ages_us))),
        }
        pq.write_table(pa.table(columns, SCHEMA), folder / f"{number:06d}.parquet")


def resident_mb(process: int | str) -> float:
    """The resident memory of a process."""
    [line] = [each for each in Path(f"/proc/{process}/status").read_text().splitlines() if each.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job, and print what it took; exit code 1 if it grew by more than a tenth."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.memory", description=__doc__)
    parser.add_argument("--batches", type=int, default=2_000)
    batches = parser.parse_args(arguments).batches
    spark = local_session(
        spark__driver__memory="1g",
        spark__driver__extraJavaOptions="-Duser.timezone=UTC -Xms1g -XX:+AlwaysPreTouch",
        spark__sql__streaming__numRecentProgressUpdates="100",
    )
    jvm: Any = spark._jvm
    java = jvm.java.lang.ProcessHandle.current().pid()
    taken: dict[str, list[float]] = {"Python": [], "JVM": []}
    with tempfile.TemporaryDirectory(prefix="trimtab-memory-") as name:
        folder = Path(name)
        write(folder / "ticks", batches + 1)
        reader: Any = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
        job = trimtab.Job(spark, checkpoint=str(folder / "checkpoint"), engines=2)
        stream = job.stream("ticks", reader.parquet(str(folder / "ticks")), event_time="ts", delay="5 seconds")
        stream.late("parquet", path=str(folder / "late"))
        done = threading.Event()

        def count(_frame: Any, number: int) -> None:
            taken["Python"].append(resident_mb("self"))
            taken["JVM"].append(resident_mb(java))
            if number % 100 == 0:
                runtime = jvm.java.lang.Runtime.getRuntime()
                runtime.gc()
                used_mb = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
                resident = f"Python {taken['Python'][-1]:.0f} MB, JVM {taken['JVM'][-1]:.0f} MB"
                print(f"batch {number}: {resident}, of which {used_mb:.0f} MB of objects", flush=True)
            if number >= batches:
                done.set()

        job.query("sums", SUMS).write(count)
        run = job.start(available_now=True)
        while not done.wait(1) and not run.await_termination(0):
            pass
        run.stop()
        run.await_termination()
        late = run.progress.late
    first = {kind: statistics.median(each[FIRST - AROUND : FIRST]) for kind, each in taken.items()}
    last = {kind: statistics.median(each[-AROUND:]) for kind, each in taken.items()}
    print(f"{len(taken['JVM'])} batches, {late:,} late rows")
    for kind in taken:
        grown = f"{first[kind]:.0f} MB after batch {FIRST}, {last[kind]:.0f} MB at the end"
        print(f"{kind}: {grown}: {last[kind] / first[kind]:.3f}")
    ratio = sum(last.values()) / sum(first.values())
    print(f"both: {ratio:.3f} ({'holds' if ratio <= 1.1 else 'DOES NOT HOLD'}: at most 1.1)")
    return int(ratio > 1.1)


if __name__ == "__main__":
    raise SystemExit(main())
