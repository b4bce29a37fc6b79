"""What live experiments on executors are made of; the experiments themselves run in `test_live`."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from trimtab.api.evaluate import evaluate
from trimtab.engine.keyed.description import registered
from trimtab.errors import BalanceError
from trimtab_lab.elastic.counting import CountedAtACost
from trimtab_lab.elastic.feeds import counts_of, feed_of, top_share
from trimtab_lab.elastic.machines import Driver
from trimtab_lab.elastic.orders import KEYS, FeedOrder, Phase, Place
from trimtab_lab.live.processes import marked

ORDER = FeedOrder(engines=2, phases=(Phase.even(2, 300, 1.0, 0), Phase(1, 200, 1.5, 0, 5)), seed=3)


def test_the_operator_counts_what_was_sent() -> None:
    tables = feed_of(ORDER)
    assert registered("counted_at_a_cost") is CountedAtACost
    sql = "SELECT * FROM counted_at_a_cost(TABLE(feed) PARTITION BY key ORDER BY ts, slow => '')"
    found = evaluate(sql, {"feed": pa.concat_tables(tables)}, event_time="ts").to_pylist()
    assert {row["key"]: (row["rows"], row["total"]) for row in found} == counts_of(tables)


def test_parts_of_a_key_add_up() -> None:
    description = CountedAtACost()
    rows = feed_of(ORDER)[0]
    parts = [rows.slice(0, 100), rows.slice(100)]
    snapshots = []
    for part in (rows, *parts):
        logic = description.open(None)
        logic.on_rows(part)
        snapshots.append(logic.snapshot())
    whole, left, right = snapshots
    assert description.merge(left or {}, right or {}) == whole


def test_a_feed_has_its_phases_in_order_and_its_times_rise() -> None:
    tables = feed_of(ORDER)
    assert [table.num_rows for table in tables] == [300, 300, 200]
    assert [table.column("slow_wait_us")[0].as_py() for table in tables] == [0, 0, 5]
    times = pa.concat_tables(tables).column("ts").cast(pa.int64()).to_numpy()
    assert (np.diff(times) > 0).all()
    assert pa.concat_tables(tables).column("key").to_numpy().max() < KEYS
    assert 0.1 < top_share(ORDER) < 0.5


def test_a_driver_that_ends_is_reported_and_leaves_no_files_or_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    driver = Driver(Place.LOCAL)
    with pytest.raises(BalanceError, match=r"lab\.driver"):
        driver.run(ORDER)
    driver.close()
    assert marked(driver.mark) == []
    assert not driver.folder.exists()
