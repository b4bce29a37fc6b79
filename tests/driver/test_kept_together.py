"""Patterns that read the same columns keep rows together, and each answers as if it were alone."""

from __future__ import annotations

import datetime
import itertools
import tempfile

import numpy as np
import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.support.bottle import Bottle
from tests.support.laws import bag
from trimtab import evaluate
from trimtab.deciding.placement import Placement
from trimtab.engine.columns.watermark import TimeRule
from trimtab.engine.match.ir.state_schema import ROWS
from trimtab.keyed_state import KEYS
from trimtab.state.segment import open_run

DAWN = datetime.datetime(2026, 1, 1)
SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "x": pa.float64()})
FALLS = "D AS D.x < PREV(D.x), U AS U.x > PREV(U.x) AND PREV(U.x) < S.x - {}"


def pattern(define: str, *, of: str = "S D+ U", rows: str = "ONE ROW PER MATCH", more: str = "", n: str = "") -> str:
    return f"""SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES FIRST(S.ts) AS began, LAST(ts) AS ended, LAST(x) AS x{n} {rows} {more} PATTERN ({of})
        DEFINE {define})"""


QUERIES = {
    **{f"falls {depth}": pattern(FALLS.format(depth)) for depth in (0.5, 1, 2.5)},
    "every row": pattern(FALLS.format(1), rows="ALL ROWS PER MATCH"),
    "overlapping": pattern(FALLS.format(0.5), more="AFTER MATCH SKIP TO NEXT ROW"),
    "soon": pattern(FALLS.format(1), of="S D+ U) WITHIN INTERVAL '3' SECOND --").replace("--)", ""),
    "and after": pattern("D AS D.x < S.x AND NEXT(D.x) > D.x", of="S D+"),
    "unmatched": pattern(FALLS.format(1), rows="ALL ROWS PER MATCH WITH UNMATCHED ROWS"),
    "first": pattern("D AS D.x < S.x", of="^ S D+"),
    "numbered": pattern(FALLS.format(0.5), n=", MATCH_NUMBER() AS number"),
    "quiet": pattern("S AS S.x > 3", of="S TIMEOUT) WITHIN INTERVAL '2' SECOND --").replace("--)", ""),
    "lower": pattern("D AS D.x < S.x - 1", of="S D"),
}


def ticks(random: np.random.Generator, count: int) -> pa.Table:
    times = [DAWN + datetime.timedelta(seconds=float(at)) for at in np.sort(random.integers(0, count, count)) / 2]
    values = pa.array(np.round(random.normal(2, 1.5, count), 1), mask=random.random(count) < 0.03)
    return pa.table([pa.array(random.integers(0, 6, count)), times, values], schema=SCHEMA)


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from(sorted(QUERIES)), min_size=2, max_size=6, unique=True),
    st.sampled_from(sorted(QUERIES)),
    st.lists(st.integers(1, 79), max_size=6),
)
def test_each_query_answers_as_if_it_were_alone(seed: int, names: list[str], added: str, cuts: list[int]) -> None:
    note(f"{names}, then {added}")
    random = np.random.default_rng(seed)
    table = ticks(random, 80)
    queries = {name: QUERIES[name] for name in names}
    rule = TimeRule(int(random.integers(0, 2)) * 1_500_000)
    edges = sorted({0, table.num_rows, *cuts})
    joins = int(random.integers(0, len(edges) - 1))
    with tempfile.TemporaryDirectory() as folder:
        bottle = Bottle(folder, queries, SCHEMA, "ts", rule=rule)
        for number, (start, end) in enumerate(itertools.pairwise(edges)):
            if number == joins:
                bottle.change({**queries, "added": QUERIES[added]}, rule)
                bottle.restart()
            bottle.batch(table.slice(start, end - start), Placement.even(1 + number % 2, 8))
            if random.random() < 0.4:
                known = [*queries, *(["added"] if number >= joins else [])]
                merges = bottle.due_merges() or [each for name in known for each in bottle.merge_into_base(name, 0, 8)]
                bottle.carry_out(merges)
        bottle.close()
        for name, sql in queries.items():
            assert bag(bottle.rows(name)) == bag(evaluate(sql, {"t": table}, event_time="ts")), name
        later = table.slice(edges[joins])
        assert bag(bottle.rows("added")) == bag(evaluate(QUERIES[added], {"t": later}, event_time="ts"))


def test_what_is_kept_together_is_in_one_place() -> None:
    names = [name for name in QUERIES if name.startswith("falls")]
    with tempfile.TemporaryDirectory() as folder:
        bottle = Bottle(folder, {name: QUERIES[name] for name in names}, SCHEMA, "ts")
        table = ticks(np.random.default_rng(3), 120)
        for start in range(0, 120, 30):
            bottle.batch(table.slice(start, 30), Placement.even(1, 8))
            manifest = bottle.manifest
            assert manifest is not None
            newest = [manifest.queries[name].runs[0] for name in names]
            bundles = [open_run(bottle._folders.segments, manifest.segments, run) for run in newest]
            for kept in (KEYS, ROWS):
                assert len({id(bundle.tables[kept]) for bundle in bundles}) == 1
