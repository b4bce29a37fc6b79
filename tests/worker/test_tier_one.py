"""Tier 1 over Arrow columns: what is sent, where it goes, and rows that fail."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.support.plain_splitter import Splitter, slot_of
from tests.support.spreads import spread_over
from tests.support.tier_one_cases import CASES, DAWN, ENGINES, KEY_GROUPS, SCHEMA, bag, intake_for, orders_for, rows_of
from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import ONLY, BatchTime, TimeRule
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.language.compile import compile_query
from trimtab.worker.intake import ORIGINAL, ROUTE, SLOT, intake_of
from trimtab.worker.left_out import completed, left_to_engines
from trimtab.worker.orders import Head, Orders
from trimtab.worker.tier_one import ColumnTierOne, obstacle_to_columns

TIME = BatchTime(TimeRule(0))
NOON_US = int(times_us(pa.array([DAWN], pa.timestamp("us")))[0][0]) + 12 * 3_600_000_000


def tier_one(case: str, partition_by: str | None = None, *, keep_original: bool = False) -> ColumnTierOne:
    return ColumnTierOne(intake_for(case, partition_by), SCHEMA, KEY_GROUPS, keep_original=keep_original)


def by_twin(one: ColumnTierOne, rows: pa.Table, orders: Orders) -> tuple[object, list[list[str]]]:
    """The head and the rows of each engine by the plain splitter, which takes a slot for each route in a column."""
    columns = one._computed(rows)
    made = one._made(columns)
    wide = made.columns | {slot_of(n): pa.array(slots) for n, slots in enumerate(made.slots)}
    wide |= {name: column for name, column in columns.items() if name not in wide}  # WHERE is not always sent
    head, parts = Splitter(one.intake, orders).split(pa.table(wide))
    sent = one.sent_schema().names
    return head, [bag(part.select([name for name in sent if name in part.column_names])) for part in parts]


@pytest.mark.parametrize("partition_by", [None, "p"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "split twice"])  # the twin mixes hashes otherwise
def test_rows_go_where_the_plain_splitter_sends_them(case: str, partition_by: str | None) -> None:
    one, rows = tier_one(case, partition_by), rows_of(200)
    slots = np.unique(np.asarray(one.sent(rows)[SLOT]))
    spread = tuple(spread_over(int(slot), (0, 1, 2)) for slot in slots[:3]) if case == "split" else ()
    for latest_us in (None, NOON_US):
        orders = orders_for(BatchTime(TimeRule(0), latest_us=latest_us), spread)
        head, parts = one.split(rows, orders)
        assert (head, [bag(part) for part in parts]) == by_twin(one, rows, orders)
        assert all(part.num_rows for part in parts)
        assert {part.schema for part in parts} == {one.sent_schema()}


def test_what_is_split_is_what_is_sent() -> None:
    for case in CASES:
        one, rows = tier_one(case), rows_of(100)
        _, parts = one.split(rows, orders_for(TIME))
        assert bag(pa.concat_tables(parts)) == bag(one.sent(rows))


def test_a_spread_key_is_on_several_engines_on_its_split_route_only() -> None:
    one, rows = tier_one("split twice"), rows_of(400)
    sent = one.sent(rows)
    slots = sorted({int(slot) for slot in sent[SLOT].to_pylist()})
    _, parts = one.split(rows, orders_for(TIME, tuple(spread_over(slot, (0, 1, 2)) for slot in slots[:5])))
    found: dict[tuple[int, int], set[int]] = {}
    for engine, part in enumerate(parts):
        for route, slot in zip(part[ROUTE].to_pylist(), part[SLOT].to_pylist(), strict=True):
            found.setdefault((route, slot), set()).add(engine)
    several = {key for key, engines in found.items() if len(engines) > 1}
    assert several
    assert all(one.intake.routes[route].split and slot in slots[:5] for route, slot in several)


@pytest.mark.parametrize("keep_original", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_is_not_sent_is_the_same_at_the_engine(case: str, keep_original: bool) -> None:
    one, rows = tier_one(case, "p", keep_original=keep_original), rows_of(200)
    slots = np.unique(np.asarray(one.sent(rows)[SLOT]))
    spread = tuple(spread_over(int(slot), (0, 1, 2)) for slot in slots[:3]) if "split" in case else ()
    orders = orders_for(TIME, spread)
    head, parts = one.split(rows, orders)
    same_head, sent = one.split(rows, orders, is_complete=False)
    assert same_head == head
    for part, each in zip(parts, sent, strict=True):
        hashes = {SLOT, *one.hashes.arrival_names}
        left_out = hashes - {*each.column_names}
        assert (left_out == hashes) == (case not in ("computed", "bare")), "those of nested columns are computed once"
        found = completed(each, one.sent_schema(), one.hashes)
        assert (found.schema, repr(found.to_pylist())) == (part.schema, repr(part.to_pylist()))


def test_columns_are_not_sent_if_others_determine_them() -> None:
    one = tier_one("derived")
    left = left_to_engines(one.hashes, SCHEMA)
    texts = {each.name: each.text for each in one.intake.columns}
    assert {texts[name] for name in left if name in texts} == {
        *("y - 1", "y - 2.5", "x * 2", "big * 3", "x * 4611686018427387904", "x * 3", "y > 0.5")
    }
    flags = {each.query: each.failed in left for each in one.intake.readings}
    assert flags == {"falls 1": True, "falls 2.5": True, "wide": True, "both": False}
    _, parts = one.split(rows_of(50), orders_for(TIME), is_complete=False)
    assert not left & {*parts[0].column_names}
    for case in ("computed", "filtered", "routes"):
        other = tier_one(case)
        assert not left_to_engines(other.hashes, SCHEMA)


def test_slots_have_the_key_group_in_front() -> None:
    sent = tier_one("one").sent(rows_of(100))
    groups = np.asarray(sent[SLOT]) >> GROUP_SHIFT
    assert set(groups.tolist()) <= set(range(KEY_GROUPS))
    assert len(set(groups.tolist())) > 5


def test_no_rows_give_the_same_columns() -> None:
    one = tier_one("computed", "p", keep_original=True)
    head, parts = one.split(SCHEMA.empty_table(), orders_for(TIME))
    assert (head.events, dict(head.newest_us)) == (0, {})
    assert [part.num_rows for part in parts] == [0] * ENGINES
    assert one.sent(rows_of(30)).schema == one.sent_schema() == parts[0].schema


def test_rows_can_come_with_the_names_of_their_partitions() -> None:
    one, rows = tier_one("one"), rows_of(30)
    head, parts = one.split(rows, orders_for(TIME), [("topic-3", 10), ("topic-5", 0), ("topic-1", 20)])
    without, same = one.split(rows, orders_for(TIME))
    newest = [one.split(some, orders_for(TIME))[0].newest_us[ONLY] for some in (rows.slice(0, 10), rows.slice(10))]
    assert head == Head(30, {"topic-3": newest[0], "topic-1": newest[1]})
    assert max(newest) == without.newest_us[ONLY]
    assert parts == same, "engines don't need the names"


def test_originals_are_whole_rows() -> None:
    rows = rows_of(30)
    sent = tier_one("one", keep_original=True).sent(rows)
    assert list(map(repr, sent[ORIGINAL].to_pylist())) == list(map(repr, rows.to_pylist()))


def test_a_bad_row_fails_alone_and_only_for_the_query_that_computes_it() -> None:
    schema = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "x": pa.int64()})
    queries = ("SELECT k, MAX(sign(x) * x * 4) AS y FROM t GROUP BY k, window(ts, '1 hour')", "SELECT k, x FROM t")
    compiled = {f"q{n}": compile_query(sql, {"t": schema}, event_time="ts") for n, sql in enumerate(queries)}
    intake = intake_of(compiled, schema, "ts")
    one = ColumnTierOne(intake, schema, KEY_GROUPS, keep_original=False)
    sent = one.sent(pa.table({"k": [1, 2, 3, 4], "ts": [DAWN] * 4, "x": [1, 1 << 62, None, 5]}, schema))
    [twice, plain] = intake.readings
    assert (plain.failed, len(twice.computed)) == (None, 1)
    first = sent.filter(pa.array(np.asarray(sent[ROUTE]) == 0))
    assert first[twice.failed].to_pylist() == [False, True, False, False]
    assert first[twice.computed[0]].to_pylist() == [4, None, None, 20]


def test_an_obstacle_names_the_column() -> None:
    schema = SCHEMA.append(pa.field("lats", pa.list_(pa.float64())))
    compiled = {"q": compile_query("SELECT k, lats FROM t", {"t": schema}, event_time="ts")}
    found = obstacle_to_columns(intake_of(compiled, schema, "ts"), schema)
    assert found is not None
    assert found.startswith("lats is list<")
    by_time = obstacle_to_columns(intake_for("one", "at"), SCHEMA)
    assert by_time is not None
    assert by_time.startswith("at is timestamp")
    by_reverse = obstacle_to_columns(intake_for("computed"), SCHEMA)
    assert by_reverse == "REVERSE(p): reverse isn't known to give the same here as in Spark"
    assert obstacle_to_columns(intake_for("all types", "p"), SCHEMA) is None
    assert obstacle_to_columns(intake_for("filtered"), SCHEMA) is None
