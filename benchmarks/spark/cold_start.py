"""The first minute: a job with empty caches, compared with warm caches and with an empty job on Spark.

Each runs in its own process with its own JVM, as a user's first run does. Cold means that Numba's cache, trimtab's and
Python's own are empty; what `trimtab warm` built is a part of the installation and stays.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.results import Bar, Cell, Number, Result, Side, Table
from benchmarks.spark import floor
from benchmarks.spark.figures import number, ratio
from benchmarks.spark.pattern import V_SHAPE
from benchmarks.spark.session import PROJECT, local_session, ticks_of
from benchmarks.spark.ticks import write_ticks

CACHES = ("NUMBA_CACHE_DIR", "TRIMTAB_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPYCACHEPREFIX")
GROUP_BY = """SELECT symbol, count(*) AS n, avg(price) AS mean, max(price) AS top
    FROM ticks GROUP BY symbol, window(ts, '10 seconds')"""
QUERIES: Mapping[str, tuple[str, ...]] = {"pattern": (V_SHAPE,), "GROUP BY": (GROUP_BY,), "both": (V_SHAPE, GROUP_BY)}
ENGINES = 2


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run: the first batch and those after it, of `rows` rows each."""

    batches: int
    rows: int
    keys: int
    rounds: int
    queries: tuple[str, ...] = ("pattern", "GROUP BY")


FULL = Sizes(batches=10, rows=100_000, keys=10_000, rounds=3)
QUICK = Sizes(batches=10, rows=100_000, keys=10_000, rounds=1, queries=("both",))


@dataclass(frozen=True, slots=True)
class StartTimes:
    """How long a start took until its first batch was committed, and each batch after that."""

    started_s: float
    first_s: float
    later_s: tuple[float, ...]


@dataclass(slots=True)
class AllStarts:
    """All measured starts: of the empty job on Spark, and of each query."""

    floors: list[StartTimes] = field(default_factory=list)
    cold: dict[str, list[StartTimes]] = field(default_factory=dict)
    warm: dict[str, list[StartTimes]] = field(default_factory=dict)

    def add_round(self, folder: Path, queries: Sequence[str]) -> None:
        """Measure each start once more; the ticks are in the folder."""
        self.floors.append(measured("floor", folder, None))
        for query in queries:
            with tempfile.TemporaryDirectory(dir=folder) as caches:
                self.cold.setdefault(query, []).append(measured(query, folder, Path(caches)))
                self.warm.setdefault(query, []).append(measured(query, folder, Path(caches)))

    def bars(self) -> list[Bar]:
        """The limits for the first minute."""
        found = []
        for query, cold in self.cold.items():
            first, later = _first(cold), ratio(_later(cold), _later(self.warm[query]))
            found += [
                Bar(f"{query}: first batch, cold over warm", ratio(first, _first(self.warm[query])), Side.AT_MOST, 1.5),
                Bar(f"{query}: first batch, cold over Spark's", ratio(first, _first(self.floors)), Side.AT_MOST, 2.0),
                Bar(f"{query}: batches 2 to {len(cold[0].later_s) + 1}, cold over warm", later, Side.AT_MOST, 2.0),
            ]
        return found

    def fastest(self) -> AllStarts:
        """The fastest of each: as if nothing else ran on the machine."""

        def best(starts: list[StartTimes]) -> list[StartTimes]:
            return [
                StartTimes(
                    min(each.started_s for each in starts),
                    min(each.first_s for each in starts),
                    min((each.later_s for each in starts), key=sum),
                )
            ]

        return AllStarts(
            best(self.floors),
            {query: best(starts) for query, starts in self.cold.items()},
            {query: best(starts) for query, starts in self.warm.items()},
        )


def run(_spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure all starts, one after the other, in each round."""
    write_ticks(folder / "ticks", sizes.batches, sizes.rows, sizes.keys)
    starts = AllStarts()
    for _ in range(sizes.rounds):
        starts.add_round(folder, sizes.queries)
    rows: list[tuple[Cell, ...]] = [_row("Spark, an empty `mapInArrow`", starts.floors)]
    for query in sizes.queries:
        rows += [_row(f"{query}, warm", starts.warm[query]), _row(f"{query}, cold", starts.cold[query])]
    return Result(
        "The first minute",
        f"From `job.start` to the first committed batch, and the {sizes.batches - 1} batches after it, each of "
        f"{sizes.rows:,} ticks; {sizes.rounds} rounds. Cold: Numba's cache, trimtab's and Python's own are empty.",
        (Table(("", "`start` returns", "first batch committed", "a later batch"), tuple(rows)),),
        tuple(starts.bars()),
    )


def _row(name: str, starts: list[StartTimes]) -> tuple[Cell, ...]:
    return name, number([each.started_s for each in starts], "s"), _first(starts), _later(starts)


def _first(starts: list[StartTimes]) -> Number:
    return number([each.first_s for each in starts], "s")


def _later(starts: list[StartTimes]) -> Number:
    """The mean of a round's later batches, so that a slow one counts."""
    return number([sum(each.later_s) / len(each.later_s) for each in starts], "s")


def measured(what: str, folder: Path, caches: Path | None) -> StartTimes:
    """Measure one start in its own process; `caches`: the folder of its caches, None: the usual ones."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if caches is not None:
        environment |= {name: str(caches / name.lower()) for name in CACHES}
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT), *filter(None, [environment.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory(dir=folder) as home:
        command = [sys.executable, "-m", "benchmarks.spark.cold_start", what, str(folder / "ticks"), home]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=PROJECT)
        if done.returncode:
            raise RuntimeError(done.stderr[-4_000:])
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return StartTimes(found["started_s"], found["first_s"], tuple(found["later_s"]))


def main() -> None:
    """Run in such a process: start, measure, print the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.cold_start", description=main.__doc__)
    for name in ("what", "ticks", "home"):
        parser.add_argument(name)
    options = parser.parse_args()
    spark, ticks, home = local_session(), Path(options.ticks), Path(options.home)
    times = _floor(spark, ticks, home) if options.what == "floor" else _job(spark, ticks, home, QUERIES[options.what])
    sys.stdout.write(json.dumps({name: getattr(times, name) for name in StartTimes.__dataclass_fields__}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # without waiting for the JVM, which takes seconds to end


def _floor(spark: SparkSession, ticks: Path, home: Path) -> StartTimes:
    ended: list[float] = []

    def empty_batch(batch: DataFrame, _number: int) -> None:
        split = batch.withColumn("engine", floor.engine_of(ENGINES)).repartitionById(ENGINES, "engine")
        split.mapInArrow(floor.swallow, "found BIGINT").write.format("noop").mode("overwrite").save()
        ended.append(time.time())

    writer = ticks_of(spark, ticks).writeStream.foreachBatch(empty_batch)
    writer = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    return _times(lambda: writer.start().awaitTermination, lambda: ended)


def _job(spark: SparkSession, ticks: Path, home: Path, queries: tuple[str, ...]) -> StartTimes:
    import trimtab

    job = trimtab.Job(spark, checkpoint=str(home / "checkpoint"), engines=ENGINES)
    job.stream("ticks", ticks_of(spark, ticks), event_time="ts")
    for position, sql in enumerate(queries):
        job.query(f"q{position}", sql).write("parquet", path=str(home / f"q{position}"))
    held: list[Any] = []

    def start() -> Callable[[], object]:
        held.append(job.start(available_now=True))
        return lambda: held[0].await_termination()

    return _times(start, lambda: [batch.finished_at_s for batch in held[0].history])


def _times(start: Callable[[], Callable[[], object]], ended: Callable[[], list[float]]) -> StartTimes:
    began = time.time()
    wait = start()
    started = time.time()
    wait()
    times = ended()
    later = tuple(after - before for before, after in itertools.pairwise(times))
    return StartTimes(started - began, times[0] - began, later)


if __name__ == "__main__":
    main()
