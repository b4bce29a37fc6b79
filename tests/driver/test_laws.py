"""The three laws without Spark: engines, state and manifests, cut, placed, merged and crashed at random."""

from __future__ import annotations

import datetime
import os
import pathlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import bottle as bottles
from tests.support.bottle import Bottle
from tests.support.driver_laws import journey
from tests.support.laws import bag
from tests.support.queries import DrawnChoices
from tests.support.spreads import spread_over
from tests.support.stream_cases import FIXED_QUERIES, random_stream
from trimtab import evaluate
from trimtab.deciding.placement import Placement
from trimtab.engine.columns.watermark import TimeRule
from trimtab.engine.operator import TIME_US
from trimtab.errors import InputError, OperatorError, StateError, ThreadLimitError
from trimtab.state.checkpoint import StreamFolders
from trimtab.state.sweep import sweep
from trimtab.worker.orders import LATE, QUARANTINE

pytestmark = pytest.mark.slow  # whole jobs

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "x": pa.int64()})
DAWN = datetime.datetime(2026, 1, 1)
SECOND_US = 1_000_000
COUNTS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k, window(ts, '10 seconds')"
RISES = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS a, B.x AS b
      PATTERN (A B) DEFINE B AS B.x > A.x)"""
SILENT = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.ts AS at
      PATTERN (A TIMEOUT) WITHIN INTERVAL '5' SECOND)"""


def events(*rows: tuple[int | None, float | None, int]) -> pa.Table:
    """Rows of a key, seconds after dawn, and a value."""
    times = [None if second is None else DAWN + datetime.timedelta(seconds=second) for _, second, _ in rows]
    return pa.table({"k": [k for k, _, _ in rows], "ts": times, "x": [x for _, _, x in rows]}, schema=SCHEMA)


@settings(max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "16")))
@given(st.data())
def test_cut_it_place_it_crash_it_the_answer_never_changes(data: st.DataObject) -> None:
    assert journey(DrawnChoices(data.draw), jobs=12) in ("", "error")


@pytest.mark.parametrize("name", FIXED_QUERIES)
def test_a_batch_for_each_row_and_a_new_placement_for_each_batch_change_nothing(
    name: str, tmp_path: pathlib.Path
) -> None:
    table = pa.concat_tables([random_stream(seed).table for seed in range(3)]).sort_by("ts")
    sql = FIXED_QUERIES[name]
    bottle = Bottle(str(tmp_path), {"q": sql}, table.schema, "ts")
    for row in range(table.num_rows):
        bottle.batch(table.slice(row, 1), Placement.even(1 + row % 3, 8).moved({row % 8: 0}))
        if not bottle.runs("q") or row % 5:
            continue
        bottle.carry_out(bottle.due_merges() or bottle.merge_into_base("q", row % 7, 8))
    bottle.close()
    expected = bag(evaluate(sql, {"t": table}, event_time="ts"))
    assert expected
    assert bag(bottle.rows("q")) == expected


def test_keys_that_share_a_slot_are_not_mixed_up(tmp_path: pathlib.Path) -> None:
    bottle = Bottle(str(tmp_path), {"q": RISES}, SCHEMA, "ts", key_groups=1, slot_bits=0)
    bottle.batch(events(*((key, 0, key) for key in range(20))))
    bottle.batch(events(*((key, 1, key + key % 2) for key in range(20))))
    bottle.close()
    assert sorted(bottle.rows("q")["k"].to_pylist()) == list(range(1, 20, 2))


def test_an_idle_key_times_out_because_others_move_the_watermark(tmp_path: pathlib.Path) -> None:
    bottle = Bottle(str(tmp_path), {"q": SILENT}, SCHEMA, "ts")
    bottle.batch(events((1, 0, 0)), Placement.even(4, 8))
    assert bottle.rows("q").num_rows == 0
    bottle.batch(events((2, 100, 0)))  # nothing comes for the engine of key 1
    bottle.batch(events())
    assert bottle.rows("q")["k"].to_pylist() == [1]


def test_the_state_of_a_finished_key_is_freed_and_merged_away(tmp_path: pathlib.Path) -> None:
    bottle = Bottle(str(tmp_path), {"q": COUNTS}, SCHEMA, "ts")
    bottle.batch(events(*((key, key / 100, 0) for key in range(50))))
    assert sum(run.keys for run in bottle.runs("q")) == 50
    bottle.batch(events((0, 60, 0)))
    bottle.batch(events((0, 60, 0)))
    bottle.carry_out(bottle.merge_into_base("q", 0, 8))
    bottle.batch(events())
    assert sum(run.keys for run in bottle.runs("q")) == 1
    assert bottle.rows("q").num_rows == 50


def test_merges_of_a_query_that_is_reset_are_forgotten(tmp_path: pathlib.Path) -> None:
    """A start repeats a batch with the queries of its plan, has their state merged, and goes on with its own."""
    bottle = Bottle(str(tmp_path), {"q": COUNTS}, SCHEMA, "ts")
    for second in range(3):
        bottle.batch(events((1, second, 0)))
    bottle.change({"q": COUNTS.replace("10 seconds", "20 seconds")}, TimeRule(0))
    bottle.carry_out(bottle.merge_of_batches("q", 0, 3))
    bottle.batch(events((1, 4, 0)))
    bottle.close()
    assert bottle.rows("q")["n"].to_pylist() == [1], "the query began afresh"


def test_a_repetition_gives_spread_keys_in_the_same_order(tmp_path: pathlib.Path) -> None:
    """The driver has the state of one in memory and reads that of the other; a repetition reads both."""
    bottle = Bottle(str(tmp_path), {"q": COUNTS}, SCHEMA, "ts", split=["q"])
    rows = events((1, 0, 0), (2, 0, 0))
    low, high = sorted(bottle.slots_of("q", rows).tolist())
    even = Placement.even(2, 8)
    bottle.batch(rows, even.with_spread([spread_over(high, [0, 1])]))
    both = even.with_spread([spread_over(low, [0, 1]), spread_over(high, [0, 1])])
    bottle.batch(events((1, 60, 0)), both, deaths=[6])  # handed over, and not committed
    assert bottle.outside.repeated, "it died before anything was handed over"
    assert sorted(bottle.rows("q")["k"].to_pylist()) == [1, 2]


def test_files_of_work_that_was_lost_are_swept_at_the_next_start(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    bottle = Bottle(str(tmp_path), {"q": COUNTS}, SCHEMA, "ts")
    folder = tmp_path / "segments"

    def noted(folders: StreamFolders, *, epoch: int) -> None:
        left.extend(path.name for path in folder.iterdir())
        sweep(folders, epoch=epoch)

    monkeypatch.setattr(bottles, "sweep", noted)
    bottle.batch(events((1, 0, 0), (2, 0, 0)), Placement.even(2, 8), deaths=[4])
    assert len(left) == 2, "what both engines wrote before the job died"
    assert bottle.manifest is not None
    assert {path.name for path in folder.iterdir()} == set(bottle.manifest.segments)
    assert not set(left) & set(bottle.manifest.segments)


def test_a_batch_that_another_job_has_begun_is_not_handed_over(tmp_path: pathlib.Path) -> None:
    bottle = Bottle(str(tmp_path), {"q": COUNTS}, SCHEMA, "ts")
    (tmp_path / "plans" / "000000000000.json").write_text("{}")  # by a job that this one doesn't know of
    with pytest.raises(StateError, match="another job has begun batch 0") as raised:
        bottle.batch(events((1, 0, 0)))
    assert raised.value.code == "state.lost-lock"
    assert (tmp_path / "plans" / "000000000000.json").read_text() == "{}"
    assert bottle.rows("q").num_rows == 0


def test_rows_without_a_key_or_a_time_are_quarantined_and_the_others_go_on(tmp_path: pathlib.Path) -> None:
    bottle = Bottle(str(tmp_path), {"q": COUNTS}, SCHEMA, "ts", keep_original=True)
    bottle.batch(events((1, 0, 7), (None, 0, 8), (1, None, 9), (None, None, 10)))
    bottle.close()
    assert bottle.manifest is not None
    assert bottle.manifest.quarantined == 3
    reasons = {row["x"]: row["reason"] for row in bottle.rows(QUARANTINE).to_pylist()}
    no_time, no_key = "ts is null", "k is null, and rows are keyed by it"
    assert reasons == {8: no_key, 9: no_time, 10: no_time}
    assert bottle.rows("q").to_pylist() == [{"k": 1, "n": 1}]


def test_late_rows_are_set_aside_and_counted_once_for_all_routes(tmp_path: pathlib.Path) -> None:
    everything = "SELECT COUNT(*) AS n FROM t GROUP BY window(ts, '10 seconds')"
    queries = {"q": COUNTS, "r": everything}
    bottle = Bottle(str(tmp_path), queries, SCHEMA, "ts", rule=TimeRule(2 * SECOND_US), keep_original=True)
    bottle.batch(events((1, 10, 0)))
    # The last one has no key for the first query, and is late for the other one.
    bottle.batch(events((1, 8, 1), (2, 7.9, 2), (1, 7, 3), (None, 7, 4)), Placement.even(3, 8))
    bottle.close()
    assert bottle.manifest is not None
    assert (bottle.manifest.late, bottle.manifest.quarantined) == (3, 0)
    assert sorted(bottle.rows(LATE)["x"].to_pylist()) == [2, 3, 4]
    assert bottle.manifest.events == 5


def test_rows_that_no_query_wants_still_move_the_watermark(tmp_path: pathlib.Path) -> None:
    sql = COUNTS.replace("FROM t", "FROM t WHERE x > 0")
    bottle = Bottle(str(tmp_path), {"q": sql}, SCHEMA, "ts")
    bottle.batch(events((1, 0, 1)))
    bottle.batch(events((1, 60, 0)))
    bottle.batch(events())
    assert bottle.rows("q").to_pylist() == [{"k": 1, "n": 1}]


def test_outputs_are_in_order_of_event_time(tmp_path: pathlib.Path) -> None:
    bottle = Bottle(
        str(tmp_path), {"q": "SELECT k, ts, SUM(x) OVER (PARTITION BY k ORDER BY ts) AS s FROM t"}, SCHEMA, "ts"
    )
    bottle.batch(events(*((key, second, 1) for key in range(5) for second in range(5))))
    bottle.close()
    times = bottle.rows("q")["ts"].to_pylist()
    assert len(times) == 25
    assert times[:20] == sorted(times[:20])
    assert TIME_US not in bottle.rows("q").column_names


def test_the_error_of_an_operator_that_fails_names_the_key(tmp_path: pathlib.Path) -> None:
    schema = SCHEMA.set(2, pa.field("x", pa.string()))
    bottle = Bottle(str(tmp_path), {"q": "SELECT * FROM runs_of(TABLE(t) PARTITION BY k ORDER BY ts, 1)"}, schema, "ts")
    rows = events((1, 0, 0)).set_column(2, "x", pa.array(["many"]))
    bottle.batch(rows)
    with pytest.raises(OperatorError, match="k = 1"):
        bottle.close()


def test_too_many_partial_matches_are_an_error(tmp_path: pathlib.Path) -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS n
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) DEFINE C AS C.x > SUM(A.x) + SUM(B.x))"""
    bottle = Bottle(str(tmp_path), {"q": sql}, SCHEMA, "ts", max_threads=3)
    with pytest.raises(ThreadLimitError, match="k=1"):
        bottle.batch(events(*((1, second, 1) for second in range(20))))
    assert list((tmp_path / "plans").iterdir()) == [], "a failed batch leaves no plan, so the query can be corrected"


def test_a_segment_that_is_gone_is_an_error_that_names_it(tmp_path: pathlib.Path) -> None:
    bottle = Bottle(str(tmp_path), {"q": COUNTS}, SCHEMA, "ts")
    bottle.batch(events((1, 0, 0)))
    (segment,) = (tmp_path / "segments").iterdir()
    segment.unlink()
    bottle.restart()
    with pytest.raises((StateError, InputError), match=segment.name):
        bottle.batch(events((1, 1, 0)))
