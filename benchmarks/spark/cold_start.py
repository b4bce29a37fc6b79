"""The first minute: a job whose every cache is empty, beside the same with warm caches and beside Spark doing nothing.

Each runs in a process of its own, with a JVM of its own: what a user's first run is. Cold means that Numba's cache,
trimtab's and Python's own are empty; what `trimtab warm` built is a part of the installation and stays.
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
    """How much is measured: the first batch and those after it, of so many rows each."""

    batches: int
    rows: int
    keys: int
    rounds: int
    queries: tuple[str, ...] = ("pattern", "GROUP BY")


FULL = Sizes(batches=10, rows=100_000, keys=10_000, rounds=3)
QUICK = Sizes(batches=10, rows=100_000, keys=10_000, rounds=1, queries=("both",))


@dataclass(frozen=True, slots=True)
class Course:
    """How long a start took until its first batch was committed, and each batch after that."""

    started_s: float
    first_s: float
    later_s: tuple[float, ...]


@dataclass(slots=True)
class Courses:
    """All that was measured: Spark's, and those of each query."""

    floors: list[Course] = field(default_factory=list)
    cold: dict[str, list[Course]] = field(default_factory=dict)
    warm: dict[str, list[Course]] = field(default_factory=dict)

    def add_round(self, folder: Path, queries: Sequence[str]) -> None:
        """Measure each once more; the ticks are in the folder."""
        self.floors.append(measured("floor", folder, None))
        for query in queries:
            with tempfile.TemporaryDirectory(dir=folder) as caches:
                self.cold.setdefault(query, []).append(measured(query, folder, Path(caches)))
                self.warm.setdefault(query, []).append(measured(query, folder, Path(caches)))

    def bars(self) -> list[Bar]:
        """What the first minute was meant to be like."""
        found = []
        for query, cold in self.cold.items():
            first, later = _first(cold), ratio(_later(cold), _later(self.warm[query]))
            found += [
                Bar(f"{query}: first batch, cold over warm", ratio(first, _first(self.warm[query])), Side.AT_MOST, 1.5),
                Bar(f"{query}: first batch, cold over Spark's", ratio(first, _first(self.floors)), Side.AT_MOST, 2.0),
                Bar(f"{query}: batches 2 to {len(cold[0].later_s) + 1}, cold over warm", later, Side.AT_MOST, 2.0),
            ]
        return found

    def fastest(self) -> Courses:
        """The fastest of each: what there is if nothing else runs on the machine."""

        def best(courses: list[Course]) -> list[Course]:
            return [
                Course(
                    min(each.started_s for each in courses),
                    min(each.first_s for each in courses),
                    min((each.later_s for each in courses), key=sum),
                )
            ]

        return Courses(
            best(self.floors),
            {query: best(courses) for query, courses in self.cold.items()},
            {query: best(courses) for query, courses in self.warm.items()},
        )


def run(_spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """All of them, one after the other, as often as there are rounds."""
    write_ticks(folder / "ticks", sizes.batches, sizes.rows, sizes.keys)
    courses = Courses()
    for _ in range(sizes.rounds):
        courses.add_round(folder, sizes.queries)
    rows: list[tuple[Cell, ...]] = [_row("Spark, an empty `mapInArrow`", courses.floors)]
    for query in sizes.queries:
        rows += [_row(f"{query}, warm", courses.warm[query]), _row(f"{query}, cold", courses.cold[query])]
    return Result(
        "The first minute",
        f"From `job.start` to the first committed batch, and the {sizes.batches - 1} batches after it, each of "
        f"{sizes.rows:,} ticks; {sizes.rounds} rounds. Cold: Numba's cache, trimtab's and Python's own are empty.",
        (Table(("", "`start` returns", "first batch committed", "a later batch"), tuple(rows)),),
        tuple(courses.bars()),
    )


def _row(name: str, courses: list[Course]) -> tuple[Cell, ...]:
    return name, number([each.started_s for each in courses], "s"), _first(courses), _later(courses)


def _first(courses: list[Course]) -> Number:
    return number([each.first_s for each in courses], "s")


def _later(courses: list[Course]) -> Number:
    """The mean of a round's later batches: a slow one among them counts."""
    return number([sum(each.later_s) / len(each.later_s) for each in courses], "s")


def measured(what: str, folder: Path, caches: Path | None) -> Course:
    """One of them in a process of its own; `caches`: where its caches are, None: where they always are."""
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
    return Course(found["started_s"], found["first_s"], tuple(found["later_s"]))


def main() -> None:
    """What runs in such a process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.cold_start", description=main.__doc__)
    for name in ("what", "ticks", "home"):
        parser.add_argument(name)
    options = parser.parse_args()
    spark, ticks, home = local_session(), Path(options.ticks), Path(options.home)
    course = _floor(spark, ticks, home) if options.what == "floor" else _job(spark, ticks, home, QUERIES[options.what])
    sys.stdout.write(json.dumps({name: getattr(course, name) for name in Course.__dataclass_fields__}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the JVM takes seconds to end, and nobody waits for that


def _floor(spark: SparkSession, ticks: Path, home: Path) -> Course:
    ended: list[float] = []

    def empty_batch(batch: DataFrame, _number: int) -> None:
        split = batch.withColumn("engine", floor.engine_of(ENGINES)).repartitionById(ENGINES, "engine")
        split.mapInArrow(floor.swallow, "found BIGINT").write.format("noop").mode("overwrite").save()
        ended.append(time.time())

    writer = ticks_of(spark, ticks).writeStream.foreachBatch(empty_batch)
    writer = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    return _course(lambda: writer.start().awaitTermination, lambda: ended)


def _job(spark: SparkSession, ticks: Path, home: Path, queries: tuple[str, ...]) -> Course:
    import trimtab

    job = trimtab.Job(spark, checkpoint=str(home / "checkpoint"), engines=ENGINES)
    job.stream("ticks", ticks_of(spark, ticks), event_time="ts")
    for position, sql in enumerate(queries):
        job.query(f"q{position}", sql).write("parquet", path=str(home / f"q{position}"))
    held: list[Any] = []

    def start() -> Callable[[], object]:
        held.append(job.start(available_now=True))
        return lambda: held[0].await_termination()

    return _course(start, lambda: [batch.finished_at_s for batch in held[0].history])


def _course(start: Callable[[], Callable[[], object]], ended: Callable[[], list[float]]) -> Course:
    began = time.time()
    wait = start()
    started = time.time()
    wait()
    times = ended()
    later = tuple(after - before for before, after in itertools.pairwise(times))
    return Course(started - began, times[0] - began, later)


if __name__ == "__main__":
    main()
