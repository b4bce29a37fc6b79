"""The same events through Flink's MATCH_RECOGNIZE: its best case, one time-ordered file, with nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.results import Bar, Number, Result, Side, Table
from benchmarks.spark import flink, ours
from benchmarks.spark.figures import number, rate, ratio
from benchmarks.spark.ticks import write_ticks


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run."""

    rows: int
    keys: int
    runs: int  # of Flink; the first warms up
    repeats: int  # batches of trimtab of the same size; as many before them warm up


FULL = Sizes(rows=1_000_000, keys=10_000, runs=4, repeats=3)
QUICK = Sizes(rows=20_000, keys=1_000, runs=2, repeats=1)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Run both over the same file, and compare throughput and matches."""
    (file,) = write_ticks(folder / "ticks", 1, sizes.rows, sizes.keys)
    ours.run(spark, folder / "ticks", folder / "once", output=folder / "found", close=True)
    found, expected = ours.matches(folder / "found"), flink.matches([file])
    assert found == expected, f"{len(found):,} matches here, {len(expected):,} in Flink"
    write_ticks(folder / "more", 2 * sizes.repeats, sizes.rows, sizes.keys)
    batches, _ = ours.run(spark, folder / "more", folder / "speed")
    own = rate(batches, sizes.repeats)
    timed = flink.run([file], runs=sizes.runs)
    theirs: Number = number([timed.rows / each for each in timed.seconds[1:]], "events/s")
    return Result(
        "Beside Flink",
        f"{sizes.rows:,} ticks of {sizes.keys:,} symbols in one time-ordered file. Flink 2.3 SQL, parallelism 2, CSV in"
        " and blackhole out, by its own clock and without its start; trimtab in batches of the same size, parquet in"
        " and out, by Spark's clock.",
        (
            Table(
                ("", "throughput", "matches"),
                (
                    ("trimtab", own, f"{len(found):,}"),
                    ("Flink 2.3, warmed up", theirs, f"{len(expected):,}, the same"),
                    ("Flink 2.3, its first run", number([timed.rows / timed.seconds[0]], "events/s"), ""),
                ),
            ),
        ),
        (Bar("V-shape, throughput over Flink SQL, warmed up", ratio(own, theirs), Side.AT_LEAST, 12),),
    )
