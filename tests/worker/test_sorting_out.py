"""What an engine sets aside of its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tests.support.tier_one_cases import KEY_GROUPS, SCHEMA, intake_for, rows_of
from trimtab.engine.columns.watermark import BatchTime, TimeRule
from trimtab.worker.accounts import Accounts
from trimtab.worker.intake import SOURCE_PARTITION, Reading
from trimtab.worker.orders import QUARANTINE, QUERY, REASON, BoolArray, EnginePlan
from trimtab.worker.set_aside import placed
from trimtab.worker.sorting_out import Rows, SortingOut
from trimtab.worker.tier_one import ColumnTierOne


def test_rows_that_no_query_can_take_say_where_in_the_source_they_were() -> None:
    rows, intake = rows_of(60), intake_for("one", SOURCE_PARTITION)
    tier_one = ColumnTierOne(intake, SCHEMA, KEY_GROUPS, keep_original=True)
    sent = tier_one.sent(placed(rows, "t:3", pa.array(range(100, 160), pa.int64())))
    plan = EnginePlan(intake, {}, sent.schema, KEY_GROUPS, 1, keep_original=True, event_time="ts")
    engine = SortingOut(plan, BatchTime(TimeRule(0)), Accounts(KEY_GROUPS, np.empty(0, np.int64)))
    engine.routes(sent.to_batches())
    bad = pa.concat_tables(engine.asides[QUARANTINE])
    assert set(bad[REASON].to_pylist()) == {"ts is null", "k is null, and rows are keyed by it"}
    assert bad.column_names == [*SCHEMA.names, "source_partition", "source_position", "source_value", QUERY, REASON]
    assert set(bad["source_partition"].to_pylist()) == {"t:3"}
    assert bad["source_value"].null_count == bad.num_rows
    places = [position - 100 for position in bad["source_position"].to_pylist()]
    assert repr(bad.select(SCHEMA.names).to_pylist()) == repr(rows.take(places).to_pylist())


def of(table: pa.Table) -> Rows:
    numbers = table["n"].to_numpy()
    return Rows(table, numbers, numbers)


def test_some_of_some_rows_are_those_that_a_filter_gives() -> None:
    rng, table = np.random.default_rng(1), pa.table({"n": range(50), "text": [str(n) for n in range(50)]})
    first: BoolArray = rng.random(50) < 0.6
    some, filtered = of(table).only_once(first), table.filter(pa.array(first))
    second: BoolArray = rng.random(filtered.num_rows) < 0.6
    for rows in (some.only_once(second), some.only(second)):
        expected = filtered.filter(pa.array(second))
        assert [rows.column(name) for name in table.column_names] == expected.columns
        assert rows.times.tolist() == rows.slots.tolist() == expected["n"].to_pylist()
    assert some.only(~first[first]).column("text").to_pylist() == []


def test_queries_that_want_the_same_rows_share_them() -> None:
    rows, odd = of(pa.table({"n": range(9)})), np.arange(9) % 2 == 1
    assert rows.only_once(odd) is rows.only_once(odd.copy())
    assert rows.only_once(odd).column("n") is rows.only_once(odd).column("n")
    assert rows.only_once(odd) is not rows.only_once(~odd)
    assert rows.only_once(odd | True) is rows


def test_of_wanted_rows_only_those_columns_are_copied_that_are_read() -> None:
    class Watched:
        def __init__(self) -> None:
            self.read = list[str]()

        def column(self, name: str) -> pa.ChunkedArray:
            self.read.append(name)
            return pa.chunked_array([[1, 2, 3]])

    table, few = Watched(), np.array([True, False, True])
    rows = Rows(table, np.arange(3), np.arange(3)).only_once(few)
    assert rows.column("b").to_pylist() == rows.column("b").to_pylist() == [1, 3]
    assert table.read == ["b"]


def test_queries_of_which_the_same_row_fails_share_the_others() -> None:
    failed, unlike = np.arange(6) == 3, np.arange(6) == 4
    flags = {"f0": failed, "f1": failed, "f2": unlike, "w": np.arange(6) > 2}
    table = pa.table({"n": range(6)} | {name: pa.array(values) for name, values in flags.items()})
    plan = EnginePlan(intake_for("one"), {}, table.schema, KEY_GROUPS, 1, keep_original=False, event_time="ts")
    engine, rows = SortingOut(plan, BatchTime(TimeRule(0)), Accounts(KEY_GROUPS, np.empty(0, np.int64))), of(table)
    reading = Reading("one", 0, (), None, (), None, "a0", ())
    first, second, other = (engine.wanted(replace(reading, failed=name), rows) for name in ("f0", "f1", "f2"))
    assert first is second
    assert first is not other
    assert [each.column("n").to_pylist() for each in (first, other)] == [[0, 1, 2, 4, 5], [0, 1, 2, 3, 5]]
    both = engine.wanted(replace(reading, failed="f0", wanted="w"), rows)
    assert both is engine.wanted(replace(reading, failed="f1", wanted="w"), rows)
    assert both.column("n").to_pylist() == [4, 5]
    assert engine.quarantined == 5
