"""Run the benchmarks on Spark, print them, write them to `results.json` and make docs/benchmarks-spark.md from it.

`python -m benchmarks.spark.run` takes about half an hour; `--only NAME` measures one part and leaves the others as
they were; `--quick` uses small sizes and writes nothing. Measure on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.machine import machine
from benchmarks.results import Result, Table, as_json, from_json
from benchmarks.spark import (
    balance,
    cold_start,
    first_story,
    growth,
    kafka,
    kafka_latency,
    latency,
    many_rules,
    moving,
    own_small,
    own_source,
    streams,
    throughput,
)
from benchmarks.spark.session import local_session

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-spark.md"

BENCHMARKS: dict[str, tuple[Callable[..., Result], Any, Any]] = {
    "start": (cold_start.run, cold_start.FULL, cold_start.QUICK),
    "throughput": (throughput.run, throughput.FULL, throughput.QUICK),
    "sources": (own_source.run, own_source.FULL, own_source.QUICK),
    "kafka": (kafka.run, kafka.FULL, kafka.QUICK),
    "kafka-small": (kafka_latency.run, kafka_latency.FULL, kafka_latency.QUICK),
    "rules": (many_rules.run, many_rules.FULL, many_rules.QUICK),
    "flink": (streams.run, streams.FULL, streams.QUICK),
    "latency": (latency.run, latency.FULL, latency.QUICK),
    "small sources": (own_small.run, own_small.FULL, own_small.QUICK),
    "growth": (growth.run, growth.FULL, growth.QUICK),
    "moving": (moving.run, moving.FULL, moving.QUICK),
    "stories": (first_story.run, first_story.FULL, first_story.QUICK),
    "balance": (balance.run, balance.FULL, balance.QUICK),
}
"""By name, in the order of the page: the function, its full sizes, and its quick ones."""

_HEAD = """\
# Benchmarks on Spark

This page is generated: `python -m benchmarks.spark.run` measures trimtab and its peers on seeded ticks in one run on
`local[2]`, writes `benchmarks/spark/results.json` and makes this page from it. `--only throughput` measures one part;
`--quick` uses small sizes and writes nothing.

A number is the median over the batches after a warm-up; ± is half of the range from the smallest to the largest.
Batches are timed by Spark's own clock, from finding the new files to the commit log (`triggerExecution`).
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the requested benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.run", description=__doc__)
    parser.add_argument("--only", choices=list(BENCHMARKS), action="append", help="measure one part")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    options = parser.parse_args(arguments)
    spark = local_session()
    for name in options.only or list(BENCHMARKS):
        measure, full, quick = BENCHMARKS[name]
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
            result = measure(spark, Path(folder), quick if options.quick else full)
        print(report.section(result))
        for bar in result.bars:
            print(f"{'holds' if bar.holds else 'DOES NOT HOLD'}: {bar.claim}: {bar.number}")
        print(f"({name} took {time.perf_counter() - began:.0f} s)\n", flush=True)
        if not options.quick:
            keep(name, result)


def keep(name: str, result: Result) -> None:
    """Add a part to the results and make the page again."""
    results: dict[str, Any] = {"benchmarks": {}}
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
    results["machine"] = machine(datetime.date.today())
    results["benchmarks"][name] = as_json(result)
    results["benchmarks"] = {each: results["benchmarks"][each] for each in BENCHMARKS if each in results["benchmarks"]}
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


def page(results: dict[str, Any]) -> str:
    """The page of documentation."""
    parts = [from_json(plain) for plain in results["benchmarks"].values()]
    held = Table(
        ("bar", "measured", "holds"),
        tuple((bar.claim, bar.number, "yes" if bar.holds else "**no**") for part in parts for bar in part.bars),
    )
    described = Table(("", ""), tuple((name, value) for name, value in results["machine"].items()))
    sections = [_HEAD, "## Bars", report.text(held), *(report.section(part) for part in parts)]
    when = "As it was when the last part was measured; others may be older.\n"
    sections += ["## The machine", when, report.text(described)]
    return "\n".join(part.rstrip("\n") + "\n" for part in sections)


if __name__ == "__main__":
    main()
