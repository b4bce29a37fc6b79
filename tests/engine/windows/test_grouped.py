"""GROUP BY windows: equal to a plain twin, whatever the cut and the order within the delay."""

import datetime as dt
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, State
from trimtab.engine.windows.assign import ClockWindow, SessionWindow
from trimtab.engine.windows.grouped import GroupCall, GroupQuery
from trimtab.errors import InputError, MatchError

Row = dict[str, Any]
SECOND = 1_000_000
EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int32()),
        ("ts", pa.timestamp("ms")),
        ("x", pa.float64()),
        ("i", pa.int64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        (ARRIVAL, pa.int64()),
    ]
)
rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", None]),
            "n": st.integers(0, 1),
            "t": st.integers(-6, 14),
            "x": st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.1, 1e16, -1e16, math.nan]),
            "i": st.none() | st.integers(-(2**50), 2**50) | st.integers(0, 2),
            "b": st.none() | st.booleans(),
            "s": st.none() | st.sampled_from(["", "ä", "zz", "b"]),
        }
    ),
    max_size=30,
)
windows = st.sampled_from(
    [
        ClockWindow(5 * SECOND, 5 * SECOND),
        ClockWindow(5 * SECOND, 5 * SECOND, 2 * SECOND),
        ClockWindow(6 * SECOND, 2 * SECOND),
        ClockWindow(5 * SECOND, 2 * SECOND, SECOND),
        SessionWindow(2 * SECOND),
        SessionWindow(4 * SECOND),
    ]
)
CALLS = (
    ("count", ()),
    ("count", ("x",)),
    ("sum", ("x",)),
    ("sum", ("i",)),
    ("avg", ("x",)),
    ("avg", ("i",)),
    ("min", ("x",)),
    ("max", ("s",)),
    ("stddev_samp", ("x",)),
    ("var_pop", ("i",)),
    ("bool_and", ("b",)),
    ("bool_or", ("b",)),
    ("first_value", ("s",)),
    ("last_value", ("x",)),
    ("any_value", ("i",)),
    ("min_by", ("s", "x")),
    ("max_by", ("x", "s")),
    ("array_agg", ("i",)),
    ("collect_list", ("s",)),
    ("count_distinct", ("i",)),
    ("approx_count_distinct", ("s",)),
    ("top_k", ("s",)),
    ("percentile", ("x",)),
)
PARAMETERS = {"top_k": (2.0,), "percentile": (200.0, 0.5)}
calls = st.lists(st.sampled_from(CALLS), min_size=1, max_size=4).map(
    lambda chosen: tuple(GroupCall(f, args, f"c{n}", PARAMETERS.get(f, ())) for n, (f, args) in enumerate(chosen))
)
keys = st.sampled_from([("k",), (), ("k", "n")])


def table_of(rows: Sequence[Row]) -> pa.Table:
    full = [{**row, "ts": EPOCH + dt.timedelta(seconds=row["t"]), ARRIVAL: n} for n, row in enumerate(rows)]
    return pa.Table.from_pylist(full, schema=SCHEMA)


def saved(state: State) -> State:
    """The state, written to a file and read again."""
    copies = {}
    for name, table in state.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
        copies[name] = pa.ipc.open_file(sink.getvalue()).read_all()
    return copies


def undated(rows: pa.Table) -> list[Row]:
    """The rows without `TIME_US`, which is the end of their window."""
    assert rows[TIME_US].to_pylist() == rows["window_end"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return rows.drop([TIME_US]).to_pylist()  # type: ignore[no-any-return]


def run(query: GroupQuery, table: pa.Table, cuts: Sequence[int] = (), delay_s: int | None = None) -> list[Row]:
    """All output rows, sorted, of the table cut into batches."""
    state: State = {}
    out = []
    edges = [0, *sorted(min(cut, table.num_rows) for cut in cuts), table.num_rows, table.num_rows]
    for start, stop in itertools.pairwise(edges):
        times = table.slice(0, stop)["ts"].to_pylist()
        watermark = None
        if delay_s is not None and times:
            watermark = int(((max(times) - EPOCH).total_seconds() - delay_s) * SECOND)
        batch = table.slice(start, stop - start)
        rows, state = query.open().advance(batch, saved(state), Moment(watermark))
        assert rows.schema == query.output_schema(table.schema)
        if watermark is not None:
            ends = rows["window_end"].cast(pa.int64()).to_pylist()
            assert all(end <= watermark for end in ends)
        out += undated(rows)
    out += undated(query.open().advance(table.slice(0, 0), state, Moment(None, closing=True))[0])
    return sorted(out, key=repr)


def key(value: Any) -> Any:
    return (math.isnan(value), value) if isinstance(value, float) else value


def twin_value(call: GroupCall, rows: list[Row]) -> Any:
    """The value of a call for the rows of a window, in order."""
    if not call.args:
        return len(rows)
    values = [row[call.args[0]] for row in rows]
    known = [value for value in values if value is not None]
    match call.function:
        case "count":
            return len(known)
        case "array_agg":
            return values
        case "collect_list":
            return known
        case "first_value" | "last_value":
            return values[0 if call.function == "first_value" else -1]
        case "count_distinct" | "approx_count_distinct":
            return len(set(known))
        case "top_k":
            top = sorted(Counter(known).items(), key=lambda pair: (-pair[1], pair[0]))[:2]
            return [{"item": item, "count": count} for item, count in top]
        case "min_by" | "max_by":
            best = [row for row in rows if row[call.args[1]] is not None]
            choose = min if call.function == "min_by" else max
            return choose(best, key=lambda r: key(r[call.args[1]]))[call.args[0]] if best else None
    return twin_number(call.function, known)


def twin_number(function: str, known: list[Any]) -> Any:
    """Aggregates that are null without values."""
    if function == "percentile":
        known = sorted(value for value in known if not math.isnan(value))
        return known[max(0, math.ceil(0.5 * len(known)) - 1)] if known else None
    if not known or (function == "stddev_samp" and len(known) < 2):
        return None
    match function:
        case "any_value":
            return known[0]
        case "sum" | "avg":
            total = sum(known) if isinstance(known[0], int) else math.fsum(known)
            return total / (len(known) if function == "avg" else 1)
        case "min" | "bool_and":
            return min(known, key=key)
        case "max" | "bool_or":
            return max(known, key=key)
    if any(map(math.isnan, known)):
        return math.nan
    return statistics.stdev(known) if function == "stddev_samp" else statistics.pvariance(known)


def spans(window: ClockWindow | SessionWindow, rows: list[Row]) -> list[tuple[int, int, list[Row]]]:
    """The windows of one key's rows, which are in order."""
    if isinstance(window, ClockWindow):
        size, slide, offset = (n // SECOND for n in (window.size_us, window.slide_us, window.offset_us))
        starts = [s for s in range(-20, 20) if (s - offset) % slide == 0]
        cut = [(s, s + size, [r for r in rows if s <= r["t"] < s + size]) for s in starts]
        return [span for span in cut if span[2]]
    gap = window.gap_us // SECOND
    sessions: list[list[Row]] = []
    for row in rows:
        if sessions and row["t"] - sessions[-1][-1]["t"] <= gap:
            sessions[-1].append(row)
        else:
            sessions.append([row])
    return [(rows[0]["t"], rows[-1]["t"] + gap, rows) for rows in sessions]


def twin(query: GroupQuery, rows: Sequence[Row]) -> list[Row]:
    """The same by definition."""
    ordered = sorted(({**r, ARRIVAL: n} for n, r in enumerate(rows)), key=lambda r: (r["t"], r[ARRIVAL]))
    out = []
    for name in {tuple(row[k] for k in query.partition) for row in rows}:
        mine = [row for row in ordered if tuple(row[k] for k in query.partition) == name]
        for start, end, inside in spans(query.window, mine):
            row: Row = dict(zip(query.partition, name, strict=True))
            row["window_start"] = EPOCH + dt.timedelta(seconds=start)
            row["window_end"] = EPOCH + dt.timedelta(seconds=end)
            out.append(row | {call.name: twin_value(call, inside) for call in query.calls})
    return out


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float | int):
        close = math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        return close or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def place(row: Row, query: GroupQuery) -> str:
    return repr([row[name] for name in (*query.partition, "window_start")])


@given(rows_strategy, keys, windows, calls)
@settings(max_examples=100, deadline=None)
def test_values_agree_with_the_definition(
    rows: list[Row], partition: tuple[str, ...], window: ClockWindow | SessionWindow, made: tuple[GroupCall, ...]
) -> None:
    query = GroupQuery(partition, "ts", window, made)
    left = sorted(run(query, table_of(rows)), key=lambda row: place(row, query))
    right = sorted(twin(query, rows), key=lambda row: place(row, query))
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.keys() == b.keys()
        assert all(same(a[name], b[name]) for name in a), (a, b)


@given(rows_strategy, keys, windows, calls, st.lists(st.integers(0, 30), max_size=6), st.none() | st.integers(0, 20))
@settings(max_examples=120, deadline=None)
def test_cuts_and_order_within_the_delay_change_nothing(
    rows: list[Row],
    partition: tuple[str, ...],
    window: ClockWindow | SessionWindow,
    made: tuple[GroupCall, ...],
    cuts: list[int],
    delay: int | None,
) -> None:
    on_time: list[Row] = []
    for row in rows:
        if delay is None or row["t"] >= max((r["t"] for r in on_time), default=-99) - delay:
            on_time.append(row)
    query = GroupQuery(partition, "ts", window, made)
    table = table_of(on_time)
    assert repr(run(query, table, cuts, delay)) == repr(run(query, table))


def totals(window: ClockWindow | SessionWindow, *made: tuple[str, str]) -> GroupQuery:
    named = (GroupCall(f, (arg,), f"c{n}") for n, (f, arg) in enumerate(made))
    return GroupQuery(("k",), "ts", window, tuple(named))


def test_a_window_leaves_when_the_watermark_reaches_its_end_and_its_key_is_forgotten() -> None:
    query = totals(ClockWindow(10 * SECOND, 10 * SECOND), ("sum", "x"))
    table = table_of([{"k": "a", "t": 3, "x": 1.0}, {"k": "b", "t": 12, "x": 2.0}])
    out, state = query.open().advance(table, {}, Moment(10 * SECOND - 1))
    assert out.num_rows == 0
    assert state["keys"]["deadline_us"].to_pylist() == [10 * SECOND, 20 * SECOND]
    out, state = query.open().advance(table.slice(2), state, Moment(10 * SECOND))
    assert out.to_pylist() == [
        {
            "k": "a",
            "window_start": EPOCH,
            "window_end": EPOCH + dt.timedelta(seconds=10),
            "c0": 1.0,
            TIME_US: 10 * SECOND,
        }
    ]
    assert state["keys"]["k"].to_pylist() == ["b"]
    assert state["windows"]["key"].to_pylist() == [0]


def test_a_row_between_two_sessions_joins_them() -> None:
    query = totals(SessionWindow(5 * SECOND), ("sum", "x"), ("array_agg", "x"))
    table = table_of([{"k": "a", "t": t, "x": float(t)} for t in (0, 8, 4)])
    (row,) = run(query, table, [1, 2])
    assert row["c0"] == 12.0
    assert row["c1"] == [0.0, 4.0, 8.0]
    assert (row["window_start"] - EPOCH).total_seconds() == 0
    assert (row["window_end"] - EPOCH).total_seconds() == 13


def test_rows_exactly_a_gap_apart_are_in_one_session_as_in_spark() -> None:
    query = totals(SessionWindow(5 * SECOND), ("count", "x"))
    table = table_of([{"k": "a", "t": t, "x": 1.0} for t in (0, 5, 11)])
    assert [row["c0"] for row in run(query, table)] == [2, 1]


def test_a_session_stays_open_for_a_row_at_its_very_end() -> None:
    query = totals(SessionWindow(5 * SECOND), ("count", "x"))
    table = table_of([{"k": "a", "t": t, "x": 1.0} for t in (0, 5)])
    out, state = query.open().advance(table.slice(0, 1), {}, Moment(5 * SECOND))
    assert out.num_rows == 0
    assert state["keys"]["deadline_us"].to_pylist() == [5 * SECOND + 1]
    out, _ = query.open().advance(table.slice(1), state, Moment(closing=True))
    assert out["c0"].to_pylist() == [2]


def test_nanoseconds_stay_nanoseconds_and_dates_become_timestamps() -> None:
    table = pa.table({"ts": pa.array([1_999, 2_001], pa.timestamp("ns", "UTC")), ARRIVAL: [0, 1]})
    query = GroupQuery((), "ts", ClockWindow(2, 2), (GroupCall("count", (), "n"),))
    out = query.open().advance(table, {}, Moment(closing=True))[0]
    assert out["window_start"].cast(pa.int64()).to_pylist() == [0, 2000]
    assert out.schema.field("window_start").type == pa.timestamp("ns", "UTC")
    days = pa.table({"ts": pa.array([0, 1, 2], pa.date32()), ARRIVAL: [0, 1, 2]})
    two = 2 * 86_400 * SECOND
    out = (
        GroupQuery((), "ts", ClockWindow(two, two), (GroupCall("count", (), "n"),))
        .open()
        .advance(days, {}, Moment(closing=True))[0]
    )
    assert out["n"].to_pylist() == [2, 1]
    assert out.schema.field("window_end").type == pa.timestamp("us")


def test_dictionaries_are_decoded() -> None:
    table = table_of([{"k": "a", "t": 1, "s": "x"}, {"k": "b", "t": 1, "s": "x"}])
    table = table.set_column(0, "k", table["k"].dictionary_encode())
    table = table.set_column(6, "s", table["s"].dictionary_encode())
    out = run(totals(ClockWindow(SECOND, SECOND), ("max", "s")), table)
    assert [(row["k"], row["c0"]) for row in out] == [("a", "x"), ("b", "x")]


def test_decimals_and_large_sums() -> None:
    values = [Decimal("99999999999999999999999999.99"), Decimal("0.01")]
    table = pa.table(
        {
            "k": ["a", "a"],
            "ts": pa.array([0, 0], pa.timestamp("us")),
            "d": pa.array(values, pa.decimal128(28, 2)),
            "i": [2**63 - 1, 1],
            ARRIVAL: [0, 1],
        }
    )
    window = ClockWindow(SECOND, SECOND)
    out, _ = totals(window, ("sum", "d"), ("min", "d")).open().advance(table, {}, Moment(closing=True))
    assert out["c0"].to_pylist() == [Decimal("100000000000000000000000000.00")]
    assert out["c1"].to_pylist() == [Decimal("0.01")]
    with pytest.raises(MatchError, match=r"window.overflow"):
        totals(window, ("sum", "i")).open().advance(table, {}, Moment(closing=True))
    average = totals(window, ("avg", "i")).open().advance(table, {}, Moment(closing=True))[0]
    assert average["c0"].to_pylist() == [2.0**62]


def test_mistakes_are_errors_with_a_code() -> None:
    table = table_of([{"k": "a", "t": 1, "s": "x"}])
    window = ClockWindow(SECOND, SECOND)
    with pytest.raises(InputError, match="sum needs a number, not string"):
        totals(window, ("sum", "s")).open().advance(table, {}, Moment())
    nulls = table.set_column(2, "ts", pa.nulls(1, pa.timestamp("ms")))
    with pytest.raises(InputError, match=r"input.null-time"):
        totals(window, ("count", "s")).open().advance(nulls, {}, Moment())
    with pytest.raises(InputError, match="needs a timestamp"):
        GroupQuery(("k",), "n", window, ()).open().advance(table, {}, Moment())
