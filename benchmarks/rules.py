"""Rules as a market desk has them: patterns of five shapes with different thresholds, as SQL and as Esper's EPL.

`python -m benchmarks.rules` runs them through one engine without Spark, batch by batch, and prints where its time went.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark.ticks import APART_US, OPENING, zipf_symbols
from trimtab.deciding.placement import Placement
from trimtab.engine.columns.watermark import BatchTime, StreamTime, TimeRule
from trimtab.language.compile import compile_query
from trimtab.language.inline import inlined
from trimtab.state.files import Folder
from trimtab.state.manifest import SegmentFile, StateRun
from trimtab.worker.engine import Engine
from trimtab.worker.intake import intake_of
from trimtab.worker.orders import EnginePlan, EngineReport, Head, Orders
from trimtab.worker.ready import ReadyPlan, ready_query, warm_engines
from trimtab.worker.tier_one import ColumnTierOne

SCHEMA = pa.schema(
    [("symbol", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("price", pa.float64()), ("volume", pa.int64())]
)
KEY_GROUPS = 1024


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule in both languages; each match gives symbol, time of its first row, and time of its last row."""

    name: str
    sql: str
    epl: str


def rule(name: str, pattern: str, defined: Mapping[str, str], ends: tuple[str, str], *, within_s: int = 0) -> Rule:
    """A rule, of a pattern and its definitions, in which both languages agree; `ends`: its first and last variable.

    Esper has no bound for the time from a match's first row to its last, so there each variable has a condition.
    """
    first, last = ends
    within = f" WITHIN INTERVAL '{within_s}' SECOND" if within_s else ""
    define = ", ".join(f"{variable} AS {condition}" for variable, condition in defined.items())
    sql = (
        f"SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts "
        f"MEASURES {first}.ts AS began, {last}.ts AS ended ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW "
        f"PATTERN ({pattern}){within} DEFINE {define})"
    )
    bound = {each: f" and {each}.ts - {first}.ts < {within_s * 1_000_000}" if within_s else "" for each in defined}
    of_esper = ", ".join(
        f"{each} as ({condition.replace('PREV(', 'prev(')}){'' if each == first else bound[each]}"
        for each, condition in defined.items()
    )
    epl = (
        f"select * from Tick match_recognize (partition by symbol "
        f"measures {first}.symbol as symbol, {first}.ts as began, {last}.ts as ended "
        f"after match skip past last row pattern ({pattern}) define {of_esper})"
    )
    return Rule(name, sql, epl)


def jump(number: int) -> Rule:
    """A price that is much above the one before it."""
    return rule(f"jump{number}", "A B", {"B": f"B.price > PREV(B.price) + {7 + number / 5:.2f}"}, ("A", "B"))


def breakout(number: int) -> Rule:
    """A low price, and then a high one."""
    defined = {"L": f"L.price < {96 - number / 10:.2f}", "H": f"H.price > {104 + number / 10:.2f}"}
    return rule(f"breakout{number}", "L H", defined, ("L", "H"))


def chase(number: int) -> Rule:
    """A low price, and within a second a high one."""
    high = f"{105 + number / 10:.2f}"
    defined = {"A": f"A.price < {95 - number / 10:.2f}", "N": f"N.price <= {high}", "B": f"B.price > {high}"}
    return rule(f"chase{number}", "A N* B", defined, ("A", "B"), within_s=1)


def dip(number: int) -> Rule:
    """Falling prices, and a rise from far below the first."""
    rise = f"U.price > PREV(U.price) AND PREV(U.price) < S.price - {6 + number / 5:.2f}"
    return rule(f"dip{number}", "S D+ U", {"D": "D.price < PREV(D.price)", "U": rise}, ("S", "U"))


def burst(number: int) -> Rule:
    """Three large volumes in a row."""
    large = 480 + 20 * number
    defined = {each: f"{each}.volume > {large}" for each in ("X", "Y", "Z")}
    return rule(f"burst{number}", "X Y Z", defined, ("X", "Z"))


SHAPES = (jump, breakout, chase, dip, burst)


def desk(count: int) -> list[Rule]:
    """As many rules, of all shapes."""
    return [SHAPES[number % len(SHAPES)](number // len(SHAPES)) for number in range(count)]


def of_one_shape(count: int) -> list[Rule]:
    """As many rules of one shape, whose thresholds stand in conditions over several rows."""
    return [dip(number) for number in range(count)]


def write_ticks(folder: Path, files: int, rows_per_file: int, keys: int, *, seed: int = 1) -> list[Path]:
    """Write seeded ticks whose symbols have Zipf shares; no two have the same time."""
    rng, draw = np.random.default_rng(seed), zipf_symbols(keys, 1.0)
    folder.mkdir(parents=True, exist_ok=True)
    opening_us, written = round(OPENING.timestamp() * 1_000_000), []
    for number in range(files):
        times_us = opening_us + np.arange(number * rows_per_file, (number + 1) * rows_per_file) * APART_US
        columns = {
            "symbol": draw(rows_per_file, rng),
            "ts": pa.array(times_us, SCHEMA.field("ts").type),
            "price": np.round(100 + 2 * rng.standard_normal(rows_per_file), 2),
            "volume": np.exp(4.6 + rng.standard_normal(rows_per_file)).astype(np.int64),
        }
        written.append(folder / f"{number:06}.parquet")
        pq.write_table(pa.table(columns, SCHEMA), written[-1])
        # The oldest file is read first, and files written in the same millisecond in any order.
        os.utime(written[-1], (float(times_us[-1]) / 1_000_000, float(times_us[-1]) / 1_000_000))
    return written


class OneEngine:
    """An engine that holds all keys, and runs batch after batch without Spark."""

    def __init__(self, folder: str, rules: Sequence[Rule]) -> None:
        queries = {each.name: inlined(compile_query(each.sql, {"ticks": SCHEMA}, event_time="ts")) for each in rules}
        intake = intake_of(queries, SCHEMA, "ts")
        self.tier_one = ColumnTierOne(intake, SCHEMA, KEY_GROUPS, keep_original=False)
        plan = EnginePlan(intake, queries, self.tier_one.sent_schema(), KEY_GROUPS, 10_000, False, "ts")
        self._ready = ReadyPlan(plan, {name: ready_query(query, 10_000) for name, query in queries.items()})
        self._folder, self._placement = Folder(folder), Placement.even(1, KEY_GROUPS)
        self._runs: dict[str, tuple[StateRun, ...]] = {}
        self._segments: dict[str, SegmentFile] = {}
        self._time, self._batch = StreamTime(), 0

    def warm(self) -> None:
        """Compile what isn't compiled yet."""
        warm_engines(self._ready.plan)

    def run(self, ticks: pa.Table) -> tuple[float, float, EngineReport]:
        """Run a batch: how long tier 1 and the engine took, and its report."""
        orders = self._orders()
        began = time.perf_counter()
        head, [table] = self.tier_one.split(ticks, orders)
        split = time.perf_counter()
        report = Engine(self._orders(head), self._ready, 0).run(table.to_batches())
        done = time.perf_counter()
        self._time = orders.time.after(head.newest_us)
        if report.segment is not None:
            self._segments[report.segment.name] = report.segment
            for query, size in report.parts.items():
                run = StateRun(report.segment.name, query, self._batch, False, 0, KEY_GROUPS, *size)
                self._runs[query] = (run, *self._runs.get(query, ()))
        self._batch += 1
        return split - began, done - split, report

    def _orders(self, head: Head | None = None) -> Orders:
        owner = np.asarray(self._placement.owner, np.int32)
        batch_time = BatchTime(TimeRule(0), self._time, reported_us=self._time.watermark_us)
        folder = self._folder
        head = head or Head()
        return Orders(b"", "", self._batch, 1, owner, batch_time, self._runs, self._segments, folder, folder, head)


def batches(files: Sequence[Path]) -> Iterator[pa.Table]:
    """The ticks of one file after another."""
    return (pq.read_table(file) for file in files)


def main() -> None:
    """Run the rules through one engine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("--rules", type=int, default=50)
    parser.add_argument("--one-shape", action="store_true")
    parser.add_argument("--rows", type=int, default=125_000, help="of a batch; a half of what two engines share")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where the last batch spent its time")
    options = parser.parse_args()
    rules = (of_one_shape if options.one_shape else desk)(options.rules)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        files = write_ticks(Path(folder, "ticks"), options.batches, options.rows, options.keys)
        state = Path(folder, "state")
        state.mkdir()
        engine = OneEngine(str(state), rules)
        for number, ticks in enumerate(batches(files)):
            if options.profile and number == options.batches - 1:
                import cProfile
                import pstats

                with cProfile.Profile() as profile:
                    engine.run(ticks)
                pstats.Stats(profile).sort_stats("tottime").print_stats(45)
                pstats.Stats(profile).sort_stats("cumtime").print_stats(60)
                return
            tier_one_s, engine_s, report = engine.run(ticks)
            stages = ", ".join(f"{name} {ms:.0f}" for name, ms in report.stages_ms.items())
            found = sum(each.rows for each in report.outputs.values())
            print(f"tier 1 {1e3 * tier_one_s:.0f} ms, engine {1e3 * engine_s:.0f} ms ({stages}), {found} matches")


if __name__ == "__main__":
    main()
