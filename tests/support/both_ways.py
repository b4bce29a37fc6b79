"""Random streams and queries on which both ways of tier 1, over columns and in the JVM, are held equal to `evaluate`.

Rows have columns of random types with the values at which mistakes show, many tie in time, and some are late, too far
ahead, or have no time or no key. Queries compute what may be computed over columns, for every type.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.support.tier_one_cases import DAWN, KEY_GROUPS, orders_for
from tests.support.typed_values import FLAT, NESTED, column_of
from trimtab.api.evaluate import answer
from trimtab.driver.combining import combine
from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import BatchTime, StreamTime, TimeRule
from trimtab.engine.operator import MAX_THREADS
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.rowwise.attempt import attempted
from trimtab.state.files import Folder
from trimtab.worker.engine import Engine
from trimtab.worker.intake import Intake, intake_of
from trimtab.worker.orders import LATE, QUARANTINE, EnginePlan, EngineReport, Head, Orders
from trimtab.worker.ready import ReadyPlan, ready_query
from trimtab.worker.tier_one import ColumnTierOne, obstacle_to_columns

FAILING = "{c} + INTERVAL 292000 YEARS"
"""Fails for times after 2247, beyond which there are none."""
FAR_AHEAD = dt.datetime(2090, 1, 1)
_EXPRESSIONS: Mapping[str, tuple[str, ...]] = {
    "number": (
        *("{c}", "{c} + 1", "-{c}", "{c} * {c}", "abs({c})", "{c} / 0", "coalesce({c}, 0)", "nullif({c}, 0)"),
        *("CASE WHEN {c} > 0 THEN {c} END", "greatest({c}, 0)"),
    ),
    "integer": ("{c} % 7", "{c} % {c}", "{c} div 3", "{c} - 1 - {c}", "CAST({c} AS STRING)", "{c} & 255"),
    "double": ("round({c}, 2)", "floor({c})", "CAST({c} AS INT)", "CAST({c} AS BIGINT)", "{c} % 3e0", "isnan({c})"),
    "text": (
        *("{c}", "upper({c})", "lower({c})", "trim({c})", "substring({c}, 2, 3)", "CAST({c} AS DOUBLE)", "length({c})"),
        *("concat({c}, '!')", "CAST({c} AS INT)", "replace({c}, 'a', 'bb')", "regexp_replace({c}, '[^a-z0]+', '_')"),
        *("left({c}, 3)", "lpad({c}, 4, '.')", "instr({c}, 'é')", "regexp_extract({c}, '([aZ])(0?)', 1)"),
    ),
    "time": ("{c}", "year({c})", "dayofweek({c})", "month({c}) = 5", "coalesce({c}, {c})"),
    "timestamp": ("date_trunc('HOUR', {c})", "CAST({c} AS DATE)", "second({c})", "{c} - INTERVAL 5 MINUTE", FAILING),
    "flag": ("{c}", "NOT {c}", "CAST({c} AS INT)", "if({c}, 'yes', 'no')"),
    "list": ("size({c})", "{c}[0]", "element_at({c}, -1)"),
    "struct": ("{c}", "{c}.n + 1", "{c}.few.b"),
    "decimal": (
        *("{c}", "-{c}", "abs({c})", "{c} + {c}", "{c} - {c}", "{c} + 1", "1 - {c}", "{c} * 2", "{c} * -7"),
        *("{c} * {c}", "{c} + 0.25", "{c} * 1.5", "coalesce({c}, {c})", "nullif({c}, {c})", "greatest({c}, -{c})"),
    ),
    "other": ("{c}",),
}
_CONDITIONS: Mapping[str, tuple[str, ...]] = {
    "number": ("{c} > 0", "{c} <= 100 OR {c} IS NULL", "{c} BETWEEN -1e9 AND 1e9", "{c} <> 0"),
    "integer": ("{c} % 2 = 0", "{c} IN (0, 1, -1, 5)"),
    "decimal": ("{c} > 0", "{c} + {c} <> 0", "{c} * 2 >= {c}", "{c} IS NULL OR {c} < 1.5"),
    "text": ("{c} LIKE '%a%'", "length({c}) < 20", "{c} RLIKE '[a-zé]'", "upper({c}) >= 'B'", "{c} <=> 'a'"),
    "time": ("year({c}) > 1970", "{c} IS NOT NULL"),
    "flag": ("{c}", "{c} IS NOT TRUE"),
}
_DECIMALS = ("decimal(9)", "decimal(18)", "decimal(19)")
_LISTS = ("list of long", "list of string", "list of int", "list of boolean", "list of date")


@dataclass(frozen=True)
class Asked:
    """A query; `keys` are the columns that make its key."""

    sql: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """Rows of a stream, and queries over it that can be computed over columns."""

    rows: pa.Table
    queries: Mapping[str, Asked]
    compiled: Mapping[str, Query] = field(repr=False)
    partition_by: str | None
    time: BatchTime

    @property
    def intake(self) -> Intake:
        """What tier 1 computes."""
        return intake_of(self.compiled, self.rows.schema, "ts", (), self.partition_by)


def case_of(seed: int, count: int = 120) -> Case:
    """The case of a seed.

    >>> sorted(case_of(3).queries)
    ['counts', 'frames', 'rises', 'rows', 'runs', 'sessions']
    """
    dice = random.Random(seed)
    kinds = {f"c{n}": kind for n, kind in enumerate(("double", "string", "int", *dice.sample(sorted(FLAT), 3)))}
    kinds |= {"d0": dice.choice(_DECIMALS), "s0": dice.choice(("double", "long", "string", "timestamp", *_DECIMALS))}
    kinds |= {"n0": dice.choice(_LISTS), "n1": dice.choice(sorted(NESTED))}
    rows = _rows(dice, kinds, count)
    queries, compiled = dict[str, Asked](), dict[str, Query]()
    for name, make in _MAKERS.items():
        while name not in queries:
            asked = make(dice, kinds)
            query = compile_query(asked.sql, {"t": rows.schema}, event_time="ts")
            if obstacle_to_columns(intake_of({name: query}, rows.schema, "ts"), rows.schema) is None:
                queries[name], compiled[name] = asked, query
    at_us = int(times_us(pa.array([DAWN + dt.timedelta(hours=4)], pa.timestamp("us")))[0][0])
    before = StreamTime(at_us, {"a": at_us}) if dice.random() < 0.7 else StreamTime()
    latest_us = int(times_us(pa.array([FAR_AHEAD], pa.timestamp("us")))[0][0]) - 1
    partition_by = dice.choice((None, "p"))
    return Case(rows, queries, compiled, partition_by, BatchTime(TimeRule(0), before, latest_us=latest_us))


def _rows(dice: random.Random, kinds: Mapping[str, str], count: int) -> pa.Table:
    times = [DAWN + dt.timedelta(minutes=dice.randrange(24 * 6) * 10) for _ in range(count)]
    columns = {
        "k": pa.array([dice.choice((1, 2, 3, 4, None)) for _ in range(count)], pa.int64()),
        "ts": pa.array([dice.choices((at, None, FAR_AHEAD), (30, 1, 1))[0] for at in times], pa.timestamp("us")),
        "id": pa.array(range(count), pa.int64()),
        "p": pa.array([dice.choice(("a", "b")) for _ in range(count)]),
    }
    columns |= {name: column_of((FLAT | NESTED)[kind], count, dice) for name, kind in kinds.items()}
    # Of one column nearly all values are null.
    columns["s0"] = pc.if_else(pa.array([dice.random() < 0.04 for _ in range(count)]), columns["s0"], None)
    # Some rows differ from another one in nothing but their number, or in a column besides.
    places = [dice.randrange(count) if dice.random() < 0.3 else row for row in range(count)]
    for name, column in columns.items():
        if name != "id" and dice.random() < 0.9:
            columns[name] = column.take(pa.array(places))
    return pa.table(columns)


def _group(kind: str) -> Iterator[str]:
    """The groups of expressions that a column may be in."""
    if kind in ("byte", "short", "int", "long"):
        yield from ("number", "integer")
    elif kind == "double":
        yield from ("number", "double")
    elif kind == "string":
        yield "text"
    elif kind in ("date", "timestamp", "timestamp_ntz"):
        yield "time"
        if kind != "date":
            yield "timestamp"
    elif kind == "boolean":
        yield "flag"
    elif kind in _LISTS:
        yield "list"
    elif kind == "struct":
        yield "struct"
    elif kind.startswith("decimal("):
        yield "decimal"
    else:
        yield "other"


def _expression(dice: random.Random, kinds: Mapping[str, str], label: str = "") -> str:
    name = dice.choice(sorted(kinds))
    return dice.choice(_EXPRESSIONS[dice.choice(list(_group(kinds[name])))]).replace("{c}", label + name)


def _condition(dice: random.Random, kinds: Mapping[str, str], label: str = "") -> str:
    while True:
        name = dice.choice(sorted(kinds))
        if known := _CONDITIONS.get(dice.choice(list(_group(kinds[name])))):
            return dice.choice(known).replace("{c}", label + name)


def _where(dice: random.Random, kinds: Mapping[str, str]) -> str:
    return f"WHERE {_condition(dice, kinds)}" if dice.random() < 0.6 else ""


def _row_wise(dice: random.Random, kinds: Mapping[str, str]) -> Asked:
    computed = [_expression(dice, of) for of in (kinds, kinds, kinds, {"d0": kinds["d0"]}, {"s0": kinds["s0"]})]
    columns = ", ".join([*kinds, *(f"{each} AS e{n}" for n, each in enumerate(computed))])
    return Asked(f"SELECT k, id, {columns} FROM t {_where(dice, kinds)}", ())


def _counts(dice: random.Random, kinds: Mapping[str, str]) -> Asked:
    flat = [name for name, kind in kinds.items() if kind in FLAT and kind not in ("binary", "interval")]
    keys = dice.sample([*flat, "k"], dice.choice((1, 1, 2)))
    called = f"COUNT({_expression(dice, kinds)}) AS c, MAX({dice.choice(['c0', 'c1', 'c2'])}) AS m"
    sql = f"SELECT {', '.join(keys)}, COUNT(*) AS n, {called} FROM t {_where(dice, kinds)}"
    return Asked(f"{sql} GROUP BY {', '.join(keys)}, window(ts, '2 hours')", tuple(keys))


def _rises(dice: random.Random, kinds: Mapping[str, str]) -> Asked:
    measures = f"A.id AS a, B.id AS b, {_expression(dice, kinds, 'A.')} AS e"
    define = f"B AS {_condition(dice, kinds, 'B.')}"
    key = dice.choice(("k", "c2"))
    return Asked(_matching(key, "ts, id", measures, "A B", define), (key,))


def _runs(dice: random.Random, kinds: Mapping[str, str]) -> Asked:
    define = f"B AS {_condition(dice, kinds, 'B.')}"
    return Asked(_matching("k", "ts", "A.id AS a, LAST(B.id) AS b", "A B+", define), ("k",))


def _frames(dice: random.Random, kinds: Mapping[str, str]) -> Asked:
    key = dice.choice(("k", "c2"))
    frame = dice.choice(("ROWS 2 PRECEDING", "RANGE INTERVAL '2' HOUR PRECEDING", ""))
    over = f"OVER (PARTITION BY {key} ORDER BY ts {frame})"
    called = f"COUNT({_expression(dice, kinds)}) {over} AS c, MAX({dice.choice(['c0', 'c1', 'd0'])}) {over} AS m"
    before = f"LAG({_expression(dice, kinds)}) OVER (PARTITION BY {key} ORDER BY ts) AS e"
    return Asked(f"SELECT {key}, id, {called}, {before} FROM t {_where(dice, kinds)}", (key,))


def _sessions(dice: random.Random, kinds: Mapping[str, str]) -> Asked:
    called = f"COUNT({_expression(dice, kinds)}) AS c, SUM(d0) AS d, MIN({dice.choice(['c0', 'c1', 's0'])}) AS m"
    sql = f"SELECT k, session_window.start AS began, COUNT(*) AS n, {called} FROM t {_where(dice, kinds)}"
    return Asked(f"{sql} GROUP BY k, session_window(ts, '1 hour')", ("k",))


def _matching(key: str, order: str, measures: str, pattern: str, define: str) -> str:
    body = f"PARTITION BY {key} ORDER BY {order} MEASURES {measures} PATTERN ({pattern}) DEFINE {define}"
    return f"SELECT * FROM t MATCH_RECOGNIZE ({body})"


_MAKERS: Mapping[str, Callable[[random.Random, Mapping[str, str]], Asked]] = {
    "rows": _row_wise,
    "counts": _counts,
    "rises": _rises,
    "runs": _runs,
    "frames": _frames,
    "sessions": _sessions,
}


# What comes out ------------------------------------------------------------------------------------


def orders_of(case: Case, folder: str) -> Orders:
    """Orders for a last batch: all that is open is decided."""
    return replace(orders_for(case.time), closing=True, folder=Folder(folder), outbox=Folder(folder))


def outputs_of(
    case: Case, schema: pa.Schema, orders: Orders, head: Head, parts: list[pa.Table]
) -> dict[str, list[str]]:
    """What engines put out of rows that tier 1 sent to them, by query, and what they set aside; whole rows are kept."""
    plan = EnginePlan(
        intake=case.intake,
        queries=dict(case.compiled),
        schema=schema,
        key_groups=KEY_GROUPS,
        max_threads=MAX_THREADS,
        keep_original=True,
        event_time="ts",
        inline_bytes=1 << 40,
    )
    ready = ReadyPlan(plan, {name: ready_query(query, MAX_THREADS) for name, query in case.compiled.items()})
    with if_missing(Missing.PLAIN):
        reports = [
            Engine(replace(orders, head=head), ready, number).run(rows.to_batches() if rows.num_rows else [])
            for number, rows in enumerate(parts)
        ]
    return {name: _bag(_combined(reports, name)) for name in (*case.queries, LATE, QUARANTINE)}


def _combined(reports: list[EngineReport], name: str) -> pa.Table | None:
    table, files = combine([report.outputs[name] for report in reports if name in report.outputs])
    assert not files
    return table


def expected_of(case: Case) -> dict[str, list[str]]:
    """What `evaluate` says of each query, if rows that tie come in the order in which a job takes them."""
    arrivals = _arrivals(case)
    return {name: _bag(_evaluated(case, name, arrivals[name])) for name in case.queries}


def _arrivals(case: Case) -> dict[str, pa.Array]:
    """The hash by which each query orders rows that tie, of all rows of the stream."""
    unfiltered = tuple(replace(reading, wanted=None) for reading in case.intake.readings)
    intake = replace(case.intake, readings=unfiltered)
    sent = ColumnTierOne(intake, case.rows.schema, KEY_GROUPS, keep_original=True).sent(case.rows)
    of_route = pa.array(range(0, sent.num_rows, len(intake.routes)))  # each row is sent on every route
    return {reading.query: sent.column(reading.arrival).take(of_route) for reading in unfiltered}


def _evaluated(case: Case, name: str, arrivals: pa.Array) -> pa.Table:
    rows, asked, query = case.rows.take(pc.array_sort_indices(arrivals)), case.queries[name], case.compiled[name]
    for column in ("ts", *asked.keys):
        rows = rows.filter(rows.column(column).is_valid())
    good = pc.less(rows.column("ts"), pa.scalar(FAR_AHEAD, pa.timestamp("us")))
    watermark_us = case.time.before.watermark_us
    if asked.keys and watermark_us is not None:
        good = pc.and_(good, pc.greater_equal(rows.column("ts").cast(pa.int64()), watermark_us))
    rows = rows.filter(good)
    texts = [*(text for _, text in query.intake.columns), *([query.intake.where] if query.intake.where else [])]
    failed = [attempt.failed for attempt in attempted(rows, texts, [None] * len(texts)) if attempt.failed is not None]
    if failed:
        rows = rows.filter(pa.array(~np.logical_or.reduce(failed)))
    with if_missing(Missing.PLAIN):
        return answer(query, rows, [0, rows.num_rows])


def _bag(rows: pa.Table | None) -> list[str]:
    """The rows as text, without an order; there is one zero, as either may stand for both in a key."""
    if rows is None:
        return []
    kept = rows.select([name for name in rows.column_names if not name.startswith("__")])
    columns = [column.cast(printable(column.type)) for column in kept.columns]
    shown = [[repr(_plain(value)) for value in column.to_pylist()] for column in columns]
    return sorted(", ".join(values) for values in zip(*shown, strict=True))


def _plain(value: object) -> object:
    return 0.0 if value == 0 and isinstance(value, float) else value


def printable(kind: pa.DataType) -> pa.DataType:
    """Times as numbers: not all of them are times of Python's."""
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else kind
