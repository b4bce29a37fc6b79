"""The kernels of the column toolkit agree with their plain twins, and order is what sorting by all levels gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.engine.columns import groups, keys
from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.columns.groups import by_group, compiled_first_rows, counting_order, first_rows
from trimtab.engine.columns.keys import distinct_numbers, key_codes
from trimtab.engine.columns.order import OrderKey, arrival_order, order_codes, sort_levels
from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import ONLY, Silence, StreamTime, TimeRule, is_late
from trimtab.errors import InputError
from trimtab.machine_code.kernel import Kernel

numbers = st.lists(st.integers(0, 9), max_size=40).map(lambda values: np.array(values, np.int64))
columns = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-9, 9)), max_size=30).map(
    lambda rows: [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.empty(0, np.int64)] * 3
)


@pytest.fixture(autouse=True, scope="module", params=["machine code", "plain Python"])
def form(request: pytest.FixtureRequest) -> object:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain Python":
            patch.setattr(Kernel, "__call__", Kernel.plain)
        yield


@given(numbers)
def test_rows_are_grouped_as_a_stable_sort_groups_them(codes: Int64Array) -> None:
    order, starts = counting_order(codes, 10)
    assert order.tolist() == by_group(codes, 10).tolist() == np.argsort(codes, kind="stable").tolist()
    assert starts.tolist() == [int((codes < code).sum()) for code in range(11)]
    known = codes.tolist()
    first = [known.index(code) if code in known else -1 for code in range(10)]
    assert compiled_first_rows(codes, 10).tolist() == first_rows(codes, 10).tolist() == first


@given(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_a_table_and_a_hash_number_values_alike(values: list[int]) -> None:
    array = np.array(values, np.int64)
    codes, count = distinct_numbers(array)
    order = list(dict.fromkeys(values))
    assert (codes.tolist(), count) == ([order.index(value) for value in values], len(order))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.booleans()), max_size=30), st.booleans())
def test_keys_are_numbered_in_order_of_appearance(rows: list[tuple[int, str, bool]], depends: bool) -> None:
    if depends:  # on the first column, as a key does on its slot
        rows = [(n, "ab"[n % 2], n > 1) for n, _, _ in rows]
    kinds = (pa.int64(), pa.string(), pa.bool_())
    arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    order = list(dict.fromkeys(rows))
    expected = ([order.index(row) for row in rows], len(order))
    for large in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(groups, "LARGE", large)
            patch.setattr(keys, "LARGE", large)
            codes, count = key_codes(arrays, len(rows))
        assert (codes.tolist(), count) == expected


@given(columns)
def test_ties_are_in_order_of_arrival(drawn: list[Int64Array]) -> None:
    *levels, arrivals = drawn
    order = arrival_order(levels, arrivals)
    rows = sorted(range(len(arrivals)), key=lambda row: (*(level[row] for level in levels), arrivals[row]))
    assert [[each[row] for each in drawn] for row in order] == [[each[row] for each in drawn] for row in rows]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([0, 2**63, 2**64 - 1], pa.uint64()),
        pa.array([-(2**63), 0, 2**63 - 1], pa.int64()),
        pa.array([-np.inf, -1.5, -0.0, 2.0, np.inf, np.nan]),
        pa.array(["", "B", "a", "á"]),
        pa.array(["B", "a"], pa.large_string()),
        pa.array(["B", "a"], pa.string_view()),
        pa.array(["B", "a"]).dictionary_encode(),
        pa.array([b"", b"\x00", b"\xff"], pa.binary()),
        pa.array([-1, 0, 1], pa.duration("ns")),
        pa.array([-1, 0, 1], pa.date32()),
        pa.array([False, True]),
    ],
    ids=lambda array: str(array.type),
)
def test_codes_have_the_order_of_the_values(array: pa.Array) -> None:
    codes = order_codes(array)
    assert (codes[1:] > codes[:-1]).all()
    (falling,) = sort_levels([array], [OrderKey("x", descending=True)])
    assert (falling[1:] < falling[:-1]).all()


def test_a_dictionary_may_hold_a_value_twice_and_a_null() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3]), pa.array(["b", "a", "b", None]))
    flags, codes = sort_levels([array], [OrderKey("x")])
    assert flags.tolist() == [1, 1, 1, 0, 0]
    assert codes[0] == codes[2] > codes[1]


def test_types_without_an_order_and_types_that_cannot_be_keys_are_refused() -> None:
    lists = pa.array([[1], [2]])
    with pytest.raises(InputError, match="ORDER BY a column of type list"):
        order_codes(lists)
    with pytest.raises(InputError, match="PARTITION BY a column of type list"):
        key_codes([lists], 2)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None], pa.timestamp("s")), [1_000_000, 0]),
        (pa.array([-1, 1_999], pa.timestamp("ns", "UTC")), [-1, 1]),
        (pa.array([-1, 1], pa.date32()), [-86_400_000_000, 86_400_000_000]),
        (pa.array([86_400_000, 0], pa.date64()), [86_400_000_000, 0]),
    ],
)
def test_times_are_microseconds_whatever_their_unit(array: pa.Array, expected: list[int]) -> None:
    found, nulls = times_us(array)
    assert found.tolist() == expected
    assert (nulls is None) == (array.null_count == 0)


@given(st.lists(st.none() | st.integers(-(10**6), 10**6)), st.integers(0, 100))
def test_a_watermark_never_falls(newest: list[int | None], delay_us: int) -> None:
    time = StreamTime()
    for each in newest:
        before_us, time = time.watermark_us, time.after({} if each is None else {ONLY: each}, TimeRule(delay_us))
        after_us = time.watermark_us
        assert before_us is None or (after_us is not None and before_us <= after_us)
        assert after_us is None or each is None or after_us >= each - delay_us


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[list[list[tuple[str, int]]], int]:
    """Batches of (partition, time), each partition in order up to the delay, however far apart they are read."""
    delay_us = draw(st.integers(0, 5))
    left = {
        name: [time + draw(st.integers(0, delay_us)) for time in sorted(draw(st.lists(st.integers(0, 50))))]
        for name in draw(st.sampled_from(["a", "ab", "abc"]))
    }
    batches = []
    while any(left.values()):
        batch = []
        for name, times in left.items():
            count = draw(st.integers(0, len(times)))
            batch += [(name, time) for time in times[:count]]
            del times[:count]
        batches.append(batch)
    return batches, delay_us


@given(partitioned(), st.booleans())
def test_no_row_is_late_if_each_partition_is_in_order(
    stream: tuple[list[list[tuple[str, int]]], int], are_listed: bool
) -> None:
    batches, delay_us = stream
    names = sorted({name for batch in batches for name, _ in batch})
    rule = TimeRule(delay_us, tuple(names) if are_listed else (), len(names))
    time = StreamTime()
    for batch in batches:
        if time.watermark_us is not None and batch:
            assert not is_late(np.array([at for _, at in batch]), time.watermark_us).any()
        newest = {name: max(at for each, at in batch if each == name) for name in {name for name, _ in batch}}
        time = time.after(newest, rule)
    if names:  # and when everything is read, the slowest partition decides
        ends = [max(at for batch in batches for each, at in batch if each == name) for name in names]
        assert time.watermark_us == min(ends) - delay_us


def test_a_partition_that_was_never_seen_holds_the_first_watermark_back_until_it_is_idle() -> None:
    rule = TimeRule(0, ("a", "b"), 2)
    time = StreamTime().after({"a": 100}, rule)
    assert time.watermark_us is None
    assert time.after({"a": 110}, rule, Silence(is_unseen_idle=True)).watermark_us == 110


def test_an_idle_partition_that_has_rows_again_counts_at_once() -> None:
    rule, idle = TimeRule(0, count=2), Silence(frozenset("b"))
    time = StreamTime().after({"a": 100, "b": 50}, rule).after({"a": 120}, rule, idle)
    assert time.watermark_us == 120
    assert time.after({"a": 200, "b": 130}, rule, idle).watermark_us == 130
