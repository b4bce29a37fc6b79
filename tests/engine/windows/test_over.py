"""OVER: equal to a plain twin, whatever the cut, and for rows out of order within the delay."""

import datetime as dt
import itertools
import math
import statistics
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, State
from trimtab.engine.windows.layout import Frame, Unit
from trimtab.engine.windows.over import OverQuery
from trimtab.engine.windows.over_call import FUNCTIONS, NUMBERS, OverCall
from trimtab.errors import InputError, MatchError

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("ts", pa.timestamp("us")),
        ("x", pa.float64()),
        ("i", pa.int64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        (ARRIVAL, pa.int64()),
    ]
)
SECOND = 1_000_000
EPOCH = dt.datetime(1970, 1, 1)
rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", None]),
            "t": st.integers(0, 12),
            "x": st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.1, 1e16, -1e16, math.nan]),
            "i": st.none() | st.integers(-(2**60), 2**60),
            "b": st.none() | st.booleans(),
            "s": st.none() | st.sampled_from(["", "ä", "zz", "b"]),
        }
    ),
    max_size=25,
)
frames = st.builds(Frame, st.sampled_from(Unit), st.none() | st.integers(0, 4))
ARGS = {
    "sum": "xi",
    "avg": "xi",
    "bool_and": "b",
    "bool_or": "b",
    **dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), "x"),
}


@st.composite
def calls(draw: st.DrawFn) -> tuple[OverCall, ...]:
    made = []
    for n in range(draw(st.integers(1, 3))):
        function = draw(st.sampled_from(FUNCTIONS))
        args: tuple[str, ...] = (draw(st.sampled_from(ARGS.get(function, "xibs"))),)
        bare = draw(st.booleans())
        if function in NUMBERS or (function == "count" and bare):
            args = ()
        elif function in ("min_by", "max_by"):
            args = (*args, draw(st.sampled_from("xis")))
        elif function == "lag" and bare:
            args = (*args, *args)
        frame = draw(frames)
        if frame.unit is Unit.RANGE and frame.preceding is not None:
            frame = Frame(Unit.RANGE, frame.preceding * SECOND)
        made.append(OverCall(function, args, frame, f"c{n}", draw(st.integers(0, 3))))
    return tuple(made)


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


def run(query: OverQuery, table: pa.Table, cuts: Sequence[int] = (), delay_s: int | None = None) -> list[Row]:
    """All output rows by arrival, of the table cut into batches."""
    state: State = {}
    out = []
    edges = [0, *sorted(min(cut, table.num_rows) for cut in cuts), table.num_rows]
    for start, stop in itertools.pairwise(edges):
        batch = table.slice(start, stop - start)
        times = table.slice(0, stop)["ts"].to_pylist()
        watermark = None
        if delay_s is not None:
            latest = max(times, default=EPOCH) - dt.timedelta(seconds=delay_s)
            watermark = int((latest - EPOCH).total_seconds() * SECOND)
        closing = stop == table.num_rows and (start, stop) == tuple(edges[-2:])
        rows, state = query.open().advance(batch, saved(state), Moment(watermark, closing))
        assert rows.schema == query.output_schema(table.schema)
        times = dict(zip(table[ARRIVAL].to_pylist(), table["ts"].cast(pa.int64()).to_pylist(), strict=True))
        assert rows[TIME_US].to_pylist() == [times[arrival] for arrival in rows[ARRIVAL].to_pylist()]
        out += rows.drop([TIME_US]).to_pylist()
    return sorted(out, key=lambda row: row[ARRIVAL])


def key(value: Any) -> Any:
    """Values in the order that min and max use: NaN is the largest."""
    return (math.isnan(value), value) if isinstance(value, float) else value


def twin_value(call: OverCall, frame: list[Row], mine: list[Row], at: int) -> Any:
    """The value of a call for row `at` of its key's rows."""
    if call.function in NUMBERS or call.function == "lag":
        return twin_place(call, mine, at)
    if not call.args:
        return len(frame)
    values = [row[call.args[0]] for row in frame]
    known = [value for value in values if value is not None]
    match call.function:
        case "count":
            return len(known)
        case "first_value":
            return values[0]
        case "last_value":
            return values[-1]
        case "first_known" | "any_value":
            return known[0] if known else None
        case "last_known":
            return known[-1] if known else None
        case "min_by" | "max_by":
            best = [row for row in frame if row[call.args[1]] is not None]
            choose = min if call.function == "min_by" else max
            return choose(best, key=lambda r: key(r[call.args[1]]))[call.args[0]] if best else None
    return aggregate(call.function, known)


def twin_place(call: OverCall, mine: list[Row], at: int) -> Any:
    """Row numbers and ranks, and the value some rows back."""
    here = mine[at]
    match call.function:
        case "row_number":
            return at + 1
        case "rank":
            return [row["t"] for row in mine].index(here["t"]) + 1
        case "dense_rank":
            return len({row["t"] for row in mine[: at + 1]})
        case "lag":
            if at >= call.offset:
                return mine[at - call.offset][call.args[0]]
            return here[call.args[1]] if len(call.args) > 1 else None
    raise AssertionError(call.function)


def aggregate(function: str, known: list[Any]) -> Any:
    """Aggregates of values that are not null."""
    if not known or (function.endswith("_samp") and len(known) < 2):
        return None
    exact = isinstance(known[0], int)
    match function:
        case "sum":
            return sum(known) if exact else math.fsum(known)
        case "avg":
            return sum(known) / len(known) if exact else math.fsum(known) / len(known)
        case "min" | "bool_and":
            return min(known, key=key)
        case "max" | "bool_or":
            return max(known, key=key)
    if any(map(math.isnan, known)):
        return math.nan
    spread = statistics.pvariance(known) * len(known)
    spread /= len(known) - (1 if function.endswith("_samp") else 0)
    return math.sqrt(spread) if function.startswith("stddev") else spread


def twin(query: OverQuery, rows: Sequence[Row]) -> list[Row]:
    """The same by the definition of OVER, row by row."""
    numbered = [{**row, ARRIVAL: n} for n, row in enumerate(rows)]
    out = []
    for name in {row["k"] for row in rows}:
        mine = [row for row in numbered if row["k"] == name]
        mine.sort(key=lambda row: (row["t"], row[ARRIVAL]))
        for at, here in enumerate(mine):
            values = {}
            for call in query.calls:
                back = call.frame.preceding
                if call.frame.unit is Unit.ROWS:
                    frame = mine[0 if back is None else max(0, at - int(back)) : at + 1]
                else:
                    frame = [row for row in mine if row["t"] <= here["t"]]
                    if back is not None:
                        frame = [row for row in frame if row["t"] >= here["t"] - back / SECOND]
                values[call.name] = twin_value(call, frame, mine, at)
            out.append({ARRIVAL: here[ARRIVAL]} | values)
    return sorted(out, key=lambda row: row[ARRIVAL])


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        close = math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        return close or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def assert_same(left: list[Row], right: list[Row]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.keys() == b.keys()
        assert all(same(a[name], b[name]) for name in a), (a, b)


def bits(rows: list[Row]) -> str:
    return repr(rows)


def over(*made: OverCall) -> OverQuery:
    return OverQuery(("k",), (OrderKey("ts"),), made, (ARRIVAL,))


@given(rows_strategy, calls())
@settings(max_examples=100, deadline=None)
def test_values_agree_with_the_definition(rows: list[Row], made: tuple[OverCall, ...]) -> None:
    query = over(*made)
    try:
        expected = twin(query, rows)
    except OverflowError:
        return
    if any(isinstance(v, int) and abs(v) >= 2**63 for row in expected for v in row.values()):
        with pytest.raises(MatchError, match="does not fit"):
            run(query, table_of(rows))
        return
    assert_same(run(query, table_of(rows)), expected)


@given(rows_strategy, calls(), st.lists(st.integers(0, 25), max_size=6))
@settings(max_examples=100, deadline=None)
def test_cuts_change_nothing(rows: list[Row], made: tuple[OverCall, ...], cuts: list[int]) -> None:
    rows = [{**row, "i": None if row["i"] is None else row["i"] // 64} for row in rows]
    table = table_of(sorted(rows, key=lambda row: row["t"]))
    query = over(*made)
    assert bits(run(query, table, cuts)) == bits(run(query, table))


@given(rows_strategy, calls(), st.lists(st.integers(0, 25), max_size=6), st.integers(0, 12))
@settings(max_examples=100, deadline=None)
def test_rows_within_the_delay_may_come_in_any_order(
    rows: list[Row], made: tuple[OverCall, ...], cuts: list[int], delay: int
) -> None:
    on_time: list[Row] = []
    for row in rows:
        if row["t"] >= max((r["t"] for r in on_time), default=0) - delay:
            on_time.append({**row, "i": None if row["i"] is None else row["i"] // 64})
    table = table_of(on_time)
    query = over(*made)
    assert bits(run(query, table, cuts, delay)) == bits(run(query, table))


@given(rows_strategy, calls())
@settings(max_examples=30, deadline=None)
def test_keys_do_not_affect_each_other(rows: list[Row], made: tuple[OverCall, ...]) -> None:
    rows = [{**row, "i": None if row["i"] is None else row["i"] // 64} for row in rows]
    table = table_of(rows)
    query = over(*made)
    places = [[n for n, r in enumerate(rows) if r["k"] == name] for name in ("a", "b", None)]
    apart = [row for mine in places for row in run(query, table.take(pa.array(mine, pa.int64())))]
    assert bits(sorted(apart, key=lambda row: row[ARRIVAL])) == bits(run(query, table))


def call(function: str, arg: str, frame: Frame) -> OverCall:
    return OverCall(function, (arg,), frame, "c0")


def test_what_is_kept_is_bounded_by_the_frames() -> None:
    rows = [{"k": "ab"[n % 2], "t": n, "x": 1.0} for n in range(1000)]
    table = table_of(rows)
    rows_kept = over(call("sum", "x", Frame(Unit.ROWS, 5))).open().advance(table, {}, Moment())[1]
    assert rows_kept["frame"].num_rows == 2 * 5
    by_range = over(call("sum", "x", Frame(Unit.RANGE, 10 * SECOND)))
    state = by_range.open().advance(table, {}, Moment(1000 * SECOND))[1]
    assert state["frame"].num_rows == 10
    assert state["waiting"].num_rows == 0
    everything = over(call("sum", "x", Frame())).open().advance(table, {}, Moment(1000 * SECOND))[1]
    assert everything["frame"].num_rows == 0
    assert everything["keys"].num_rows == 2


def test_an_idle_key_has_a_deadline_and_is_forgotten_when_it_is_visited() -> None:
    query = over(call("sum", "x", Frame(Unit.RANGE, 10 * SECOND)))
    table = table_of([{"k": "a", "t": 5, "x": 1.0}])
    out, state = query.open().advance(table, {}, Moment(2 * SECOND))
    assert out.num_rows == 0
    assert state["keys"]["deadline_us"].to_pylist() == [5 * SECOND + 1]
    out, state = query.open().advance(table.slice(1), state, Moment(5 * SECOND + 1))
    assert out.num_rows == 1
    assert state["keys"]["deadline_us"].to_pylist() == [15 * SECOND + 1]
    out, state = query.open().advance(table.slice(1), state, Moment(15 * SECOND + 1))
    assert state["keys"].num_rows == 0


def test_a_row_that_comes_too_late_is_refused() -> None:
    table = table_of([{"k": "a", "t": 5}, {"k": "b", "t": 7}, {"k": "a", "t": 4}])
    query = over(OverCall("row_number", (), Frame(), "c0"))
    with pytest.raises(InputError, match=r"input.out-of-order.*00:00:04.*00:00:05, for k = a"):
        run(query, table, [2])
    assert [row["c0"] for row in run(query, table)] == [2, 1, 1]


def test_a_row_without_a_time_is_refused() -> None:
    table = pa.table({"k": ["a"], "ts": pa.nulls(1, pa.timestamp("us")), ARRIVAL: [0]})
    with pytest.raises(InputError, match=r"input.null-time"):
        over(OverCall("row_number", (), Frame(), "c0")).open().advance(table, {}, Moment())


def test_more_order_columns_break_ties_and_make_peers() -> None:
    table = pa.table(
        {"k": ["a"] * 4, "ts": pa.array([1, 1, 1, 1], pa.timestamp("s")), "p": [2, None, 1, 2], ARRIVAL: range(4)}
    )
    query = OverQuery(
        ("k",),
        (OrderKey("ts"), OrderKey("p", descending=True, nulls_first=False)),
        (OverCall("rank", (), Frame(), "r"), OverCall("count", (), Frame(), "n")),
        (ARRIVAL,),
    )
    out = run_plain(query, table)
    assert [(row["r"], row["n"]) for row in out] == [(1, 2), (4, 4), (3, 3), (1, 2)]


def run_plain(query: OverQuery, table: pa.Table) -> list[Row]:
    out, _ = query.open().advance(table, {}, Moment(closing=True))
    rows: list[Row] = out.to_pylist()
    return sorted(rows, key=lambda row: row[ARRIVAL])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [-(2**31), 0, 1, 2, 2**31 - 1]),
        (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
        (pa.float64(), [-math.inf, 0.0, 0.5, 1.5, math.inf]),
        (pa.timestamp("ns"), [0, 1, 500, 1000, 2000]),
        (pa.date32(), [0, 1, 2, 3, 4]),
    ],
)
def test_a_range_can_be_over_any_number_or_time(kind: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"o": pa.array(values, kind), ARRIVAL: range(5)})
    query = OverQuery((), (OrderKey("o"),), (OverCall("count", (), Frame(Unit.RANGE, 1), "n"),), (ARRIVAL,))
    expected = {
        pa.int32(): [1, 1, 2, 2, 1],
        pa.int64(): [1, 1, 2, 2, 1],
        pa.float64(): [1, 1, 2, 2, 1],
        pa.timestamp("ns"): [1, 2, 3, 4, 2],
        pa.date32(): [1, 1, 1, 1, 1],
    }
    assert [row["n"] for row in run_plain(query, table)] == expected[kind]


def test_decimals_are_summed_exactly() -> None:
    values = [Decimal("0.10"), None, Decimal("-12345678901234.55")]
    table = pa.table({"o": [1, 2, 3], "d": pa.array(values, pa.decimal128(20, 2)), ARRIVAL: range(3)})
    query = OverQuery(
        (), (OrderKey("o"),), (OverCall("sum", ("d",), Frame(), "s"), OverCall("avg", ("d",), Frame(), "a")), (ARRIVAL,)
    )
    out = run_plain(query, table)
    total = Decimal("-12345678901234.45")
    assert [row["s"] for row in out] == [Decimal("0.10"), Decimal("0.10"), total]
    assert out[2]["a"] == pytest.approx(float(total) / 2)


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    table = pa.table({"o": [1, 2, 3], "i": [2**63 - 1, 1, -1], ARRIVAL: range(3)})
    one = OverQuery((), (OrderKey("o"),), (call("sum", "i", Frame()),), (ARRIVAL,))
    with pytest.raises(MatchError, match=r"window.overflow"):
        run_plain(one, table)
