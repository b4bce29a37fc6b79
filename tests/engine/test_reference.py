"""What a pattern means, sentence by sentence, on letters: long, because it is read from top to bottom."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support.patterns import (
    EMPTY,
    END,
    START,
    TIMEOUT,
    A,
    B,
    C,
    either,
    hide,
    letters_query,
    letters_table,
    maybe,
    permute,
    plus,
    read,
    seq,
    spell,
    star,
    times,
)
from tests.support.reference import match_rows
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.match.ir.expression import (
    HERE,
    Aggregate,
    Call,
    Const,
    Expr,
    MatchNumber,
    Opaque,
    Place,
    RowValue,
    Side,
)
from trimtab.engine.match.ir.pattern import Pattern
from trimtab.engine.match.ir.query import Rows, Skip, SkipPastLast, SkipTo, SkipToNext
from trimtab.errors import MatchError

INT, STRING, BOOL = pa.int64(), pa.string(), pa.bool_()
ANY = (None,) * 5
LABEL = RowValue(HERE, tuple(Const(x, STRING) for x in [*"ABCDE", None]), Const(None, STRING), STRING)
NUMBER = MatchNumber()


def words(pattern: Pattern, text: str, seconds: list[int] | None = None, **changes: Any) -> list[str]:
    """The matched letters of each match."""
    return spell(match_rows(letters_query(pattern, **changes), letters_table(text, seconds)))


def lines(pattern: Pattern, text: str, *slots: Expr, rows: Rows, **changes: Any) -> list[list[Any]]:
    """Each output row as a list: its letter, then the slots."""
    query = letters_query(pattern, slots=slots, rows=rows, keep=("letter",), **changes)
    return [list(row.values()) for row in match_rows(query, letters_table(text)).to_pylist()]


def labels(pattern: Pattern, text: str, **changes: Any) -> str:
    """The labels of all matched rows, where several labels fit a row."""
    changes = {"conditions": ANY} | changes
    return "".join(x[1] for x in lines(pattern, text, LABEL, rows=Rows.ALL_SHOW_EMPTY, **changes))


# -- patterns ----------------------------------------------------------------------------------


def test_labels_follow_one_another() -> None:
    assert words(seq(A, B, C), "AABCABABC") == ["ABC", "ABC"]


def test_a_plus_takes_as_much_as_it_can() -> None:
    assert words(seq(A, plus(B)), "ABBBC") == ["ABBB"]


def test_a_reluctant_plus_takes_as_little_as_it_can() -> None:
    assert words(seq(A, plus(B, greedy=False)), "ABBBC") == ["AB"]
    assert words(seq(A, plus(B, greedy=False), C), "ABBBC") == ["ABBBC"]


def test_a_greedy_loop_gives_back_what_the_rest_needs() -> None:
    assert labels(seq(star(A), B), "xyz") == "AAB"
    assert labels(seq(star(A, greedy=False), B), "xyz") == "BBB"


@pytest.mark.parametrize(
    ("low", "high", "greedy", "expected"),
    [
        (2, 2, True, ["AA", "AA"]),
        (2, None, True, ["AAAAA"]),
        (0, 3, True, ["AAA", "AA"]),
        (2, 3, True, ["AAA", "AA"]),
        (2, 3, False, ["AA", "AA"]),
        (2, None, False, ["AA", "AA"]),
    ],
)
def test_a_quantifier_counts(low: int, high: int | None, greedy: bool, expected: list[str]) -> None:
    assert words(times(A, low, high, greedy=greedy), "AAAAA") == expected


def test_an_alternation_prefers_the_earlier_item_even_if_it_is_shorter() -> None:
    assert words(either(A, seq(A, B)), "AB") == ["A"]
    assert words(seq(either(A, seq(A, B)), C), "ABC") == ["ABC"]


def test_an_option_is_taken_if_it_can_be() -> None:
    assert words(seq(A, maybe(B)), "ABA") == ["AB", "A"]
    assert words(seq(A, maybe(B, greedy=False)), "ABA") == ["A", "A"]


def test_permute_takes_any_order() -> None:
    assert words(permute(A, B, C), "CABBCA") == ["CAB", "BCA"]


def test_permute_prefers_the_written_order() -> None:
    assert labels(permute(B, A, C), "xyz") == "BAC"
    assert labels(seq(permute(B, A), A), "xyz", conditions=(None,) * 5) == "BAA"


def test_permute_tries_all_ways_of_one_order_before_the_next_order() -> None:
    # A* B C with fewer As comes before A* C B with more.
    conditions = list(letters_query(EMPTY).conditions)
    conditions[0] = None
    pattern = permute(star(A), B, C)
    assert labels(pattern, "xBCB", conditions=tuple(conditions)) == "ABC"


def test_an_empty_iteration_ends_a_loop() -> None:
    assert words(seq(star(star(A)), B), "AAB") == ["AAB"]
    assert words(star(EMPTY), "A") == [""]
    assert words(seq(star(maybe(A, greedy=False)), B), "AB") == ["AB"]


def test_an_empty_iteration_ends_the_loop_if_it_is_required_or_the_loop_has_an_upper_bound() -> None:
    # The iteration prefers to be empty; the loop then ends, although another one could take the A.
    assert words(plus(either(EMPTY, A)), "A") == [""]
    assert words(times(either(EMPTY, A), 0, 9), "A") == [""]
    # Otherwise it has to take a row, though it would prefer none.
    assert words(star(either(EMPTY, A)), "AA") == ["AA"]


def test_required_iterations_may_be_empty() -> None:
    assert words(seq(times(maybe(A), 3, 3), B), "AB") == ["AB"]
    assert words(plus(star(A)), "B") == [""]


def test_start_holds_before_the_first_row() -> None:
    assert words(seq(START, A), "AAA") == ["A"]
    assert words(seq(A, START), "AAA") == []


def test_end_holds_after_the_last_row() -> None:
    assert words(seq(A, END), "AAA") == ["A"]
    assert words(seq(plus(A, greedy=False), END), "AAA") == ["AAA"]


def test_a_long_match_does_not_exhaust_the_stack() -> None:
    assert words(seq(plus(A), B), "A" * 3000 + "B") == ["A" * 3000 + "B"]


def test_ambiguous_patterns_that_fail_do_not_take_exponential_time() -> None:
    several = star(either(star(A), seq(A, A), plus(A)))
    assert words(seq(several, B), "A" * 25) == []


def test_a_search_of_exponential_time_ends_when_patience_is_used_up() -> None:
    count = Aggregate("count", frozenset({0}), (), INT)
    never = Call("<", (count, Const(0, INT)), BOOL)
    query = letters_query(seq(star(either(A, B)), C), conditions=(None, None, never, None, None))
    with pytest.raises(TimeoutError):
        match_rows(query, letters_table("x" * 30), patience=1000)


# -- time --------------------------------------------------------------------------------------


def test_a_match_as_long_as_the_bound_is_too_long() -> None:
    pattern = seq(A, star(B))
    assert words(pattern, "ABBB", [0, 1, 2, 3], within_us=2_000_000) == ["AB"]
    assert words(pattern, "ABBB", [0, 1, 2, 3], within_us=2_000_001) == ["ABB"]


def test_timeout_holds_at_the_first_row_past_the_bound() -> None:
    pattern = seq(A, star(B), TIMEOUT)
    assert words(pattern, "ABBC", [0, 1, 2, 9], within_us=5_000_000) == ["ABB"]
    assert words(pattern, "ABBC", [0, 1, 2, 4], within_us=5_000_000) == []


def test_timeout_holds_at_the_end_of_input() -> None:
    assert words(seq(A, star(B), TIMEOUT), "CAB", within_us=5_000_000) == ["AB"]


def test_timeout_needs_a_matched_row() -> None:
    assert words(seq(star(A), TIMEOUT), "B", within_us=1) == []


def test_dates_count_as_times() -> None:
    table = letters_table("ABB", [0, 86_400, 2 * 86_400])
    dates = table.set_column(0, "t", table["t"].cast(pa.date32()))
    query = letters_query(seq(A, star(B)), within_us=2 * 86_400_000_000)
    assert spell(match_rows(query, dates)) == ["AB"]


def test_nanoseconds_count_as_times() -> None:
    table = letters_table("ABB")
    precise = table.set_column(0, "t", table["t"].cast(pa.timestamp("ns")))
    query = letters_query(seq(A, star(B)), within_us=2_000_000)
    assert spell(match_rows(query, precise)) == ["AB"]


# -- where the next match starts ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (SkipPastLast(), ["AABB", "AB"]),
        (SkipToNext(), ["AABB", "ABB", "AB"]),
        (SkipTo(Side.FIRST, frozenset({1}), "B"), ["AABB", "AB"]),
        (SkipTo(Side.LAST, frozenset({0, 1}), "U"), ["AABB", "AB"]),
    ],
)
def test_skip_decides_where_the_next_match_starts(skip: Skip, expected: list[str]) -> None:
    assert words(seq(plus(A), plus(B)), "AABBAB", skip=skip) == expected


def test_skip_to_the_last_of_a_label_may_start_inside_the_match() -> None:
    skip = SkipTo(Side.LAST, frozenset({0}), "A")
    assert words(seq(A, plus(B), maybe(A)), "ABBABA", skip=skip) == ["ABBA", "ABA"]


def test_skipping_to_the_first_row_is_an_error() -> None:
    with pytest.raises(MatchError) as caught:
        words(seq(A, B), "AB", skip=SkipTo(Side.FIRST, frozenset({0}), "A"))
    assert caught.value.code == "match.skip-first-row"


def test_skipping_to_a_label_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MatchError) as caught:
        words(seq(A, maybe(B)), "AC", skip=SkipTo(Side.LAST, frozenset({1}), "B"))
    assert caught.value.code == "match.skip-missing"


def test_after_an_empty_match_the_next_row_is_tried_whatever_the_mode() -> None:
    skip = SkipTo(Side.LAST, frozenset({1}), "B")
    assert words(star(A), "BAB", skip=SkipPastLast()) == ["", "A", ""]
    assert words(star(C), "BAB", skip=skip) == ["", "", ""]


# -- rows per match ----------------------------------------------------------------------------


def test_all_rows_shows_each_matched_row_with_its_label_and_number() -> None:
    expected = [["A", "A", 1], ["B", "B", 1], ["A", "A", 2], ["B", "B", 2]]
    assert lines(seq(A, B), "ABCAB", LABEL, NUMBER, rows=Rows.ALL_SHOW_EMPTY) == expected


def test_exclusion_hides_rows_but_counts_them() -> None:
    count = Aggregate("count", None, (), INT)
    hidden = lines(seq(A, hide(plus(B)), C), "ABBC", count, rows=Rows.ALL_SHOW_EMPTY)
    assert hidden == [["A", 1], ["C", 4]]
    assert words(seq(A, hide(plus(B)), C), "ABBC") == ["ABBC"]


def test_exclusion_ends_where_backtracking_leaves_it() -> None:
    pattern = seq(either(seq(hide(A), C), seq(A, B)), A)
    assert lines(pattern, "ABA", rows=Rows.ALL_SHOW_EMPTY) == [["A"], ["B"], ["A"]]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (Rows.ONE, [["A", 1, 1, "A"], ["B", 2, 0, None], ["C", 3, 0, None], ["A", 4, 1, "A"]]),
        (Rows.ALL_SHOW_EMPTY, [["A", 1, 1, "A"], ["B", 2, 0, None], ["C", 3, 0, None], ["A", 4, 1, "A"]]),
        (Rows.ALL_OMIT_EMPTY, [["A", 1, 1, "A"], ["A", 4, 1, "A"]]),
        (Rows.ALL_WITH_UNMATCHED, [["A", 1, 1, "A"], ["B", 2, 0, None], ["C", 3, 0, None], ["A", 4, 1, "A"]]),
    ],
)
def test_empty_matches_have_a_number_and_no_rows(rows: Rows, expected: list[Any]) -> None:
    count = Aggregate("count", None, (), INT)
    assert lines(star(A), "ABCA", NUMBER, count, LABEL, rows=rows) == expected


def test_rows_in_no_match_have_null_slots() -> None:
    count = Aggregate("count", None, (), INT)
    shown = lines(seq(A, B), "CABA", NUMBER, count, rows=Rows.ALL_WITH_UNMATCHED)
    assert shown == [["A", 1, 1], ["B", 1, 2], ["C", None, None], ["A", None, None]]


def test_overlapping_matches_show_a_row_in_each() -> None:
    shown = lines(seq(A, plus(A)), "AAA", NUMBER, rows=Rows.ALL_SHOW_EMPTY, skip=SkipToNext())
    assert [number for _, number in shown] == [1, 1, 1, 2, 2]


def test_running_reads_the_rows_so_far_and_final_reads_all_rows() -> None:
    slots: list[Expr] = [
        Aggregate("count", frozenset({1}), (), INT),
        Aggregate("count", frozenset({1}), (), INT, final=True),
        read("letter", Place(frozenset({1}), Side.LAST)),
        read("letter", Place(final=True)),
        read("letter", Place(side=Side.FIRST)),
    ]
    shown = lines(seq(A, plus(B)), "ABB", *slots, rows=Rows.ALL_SHOW_EMPTY)
    assert shown == [["A", 0, 2, None, "B", "A"], ["B", 1, 2, "B", "B", "A"], ["B", 2, 2, "B", "B", "A"]]


def test_one_row_per_match_is_computed_at_the_last_row() -> None:
    slots = (Aggregate("count", None, (), INT), read("letter"))
    assert lines(seq(A, B), "CAB", *slots, rows=Rows.ONE) == [["A", 2, "B"]]


# -- places ------------------------------------------------------------------------------------


def test_offsets_count_from_their_side() -> None:
    def at(side: Side, offset: int) -> Any:
        slot = read("t", Place(frozenset({0}), side, offset), pa.timestamp("us"))
        value = lines(seq(plus(A), B), "AAAB", slot, rows=Rows.ONE)[0][1]
        return value and value.second

    assert [at(Side.FIRST, i) for i in range(4)] == [0, 1, 2, None]
    assert [at(Side.LAST, i) for i in range(4)] == [2, 1, 0, None]


def test_a_shift_may_leave_the_match_but_not_the_partition() -> None:
    def at(shift: int) -> Any:
        return lines(A, "BCAED", read("letter", Place(shift=shift)), rows=Rows.ONE)[0][1]

    assert [at(shift) for shift in (-3, -2, -1, 0, 1, 2, 3)] == [None, "B", "C", "A", "E", "D", None]


def test_a_row_outside_the_match_has_no_label() -> None:
    def label_at(place: Place) -> list[Any]:
        slot = RowValue(place, (*LABEL.sources[:-1], Const("-", STRING)), Const("?", STRING), STRING)
        return [x[1] for x in lines(seq(A, B), "CABC", slot, rows=Rows.ALL_SHOW_EMPTY)]

    assert label_at(Place(shift=-1)) == ["-", "A"]
    assert label_at(Place(shift=1)) == ["B", "-"]
    assert label_at(Place(side=Side.FIRST, shift=1)) == ["B", "B"]
    assert label_at(Place(side=Side.FIRST, shift=1, final=True)) == ["B", "B"]
    assert label_at(Place(shift=3)) == ["?", "?"]


# -- conditions --------------------------------------------------------------------------------


def conditions(**changed: Expr | None) -> tuple[Expr | None, ...]:
    """The letters' conditions with some of them changed."""
    return tuple(
        changed.get(name, condition) for name, condition in zip("ABCDE", letters_query(EMPTY).conditions, strict=True)
    )


def test_in_a_condition_the_row_that_is_tried_is_the_last_of_the_match() -> None:
    count = Aggregate("count", frozenset({1}), (), INT)
    two = Call("<=", (count, Const(2, INT)), BOOL)
    assert words(seq(A, plus(B)), "AxyzA", conditions=conditions(B=two)) == ["Axy"]


def test_a_null_condition_does_not_hold() -> None:
    before = Call("=", (read("letter", Place(shift=-1)), Const("A", STRING)), BOOL)
    assert words(B, "xAy", conditions=conditions(B=before)) == ["y"]


def test_in_a_condition_the_match_number_is_that_of_the_match_under_way() -> None:
    second = Call("=", (MatchNumber(), Const(2, INT)), BOOL)
    assert words(either(B, A), "AAAA", conditions=conditions(B=second)) == ["A"] * 4
    assert labels(either(B, A), "AAAA", conditions=conditions(B=second)) == "ABAA"


def test_a_condition_may_depend_on_how_earlier_rows_were_labelled() -> None:
    # B* prefers as many Bs as it can have, but C needs an A among the earlier rows.
    has_a = Call(">", (Aggregate("count", frozenset({0}), (), INT), Const(0, INT)), BOOL)
    pattern = seq(star(either(B, A)), C)
    assert labels(pattern, "xyz", conditions=(None, None, has_a, None, None)) == "BAC"


def test_the_caller_computes_functions_that_the_engine_does_not_have() -> None:
    soft = Opaque("lower($1) = 'b'", (read("letter"),), BOOL)
    query = letters_query(seq(A, plus(B)), conditions=conditions(B=soft))
    calls = []

    def scalar(sql: str, args: tuple[object, ...]) -> object:
        calls.append((sql, args))
        return args == ("b",)

    assert spell(match_rows(query, letters_table("AbbB"), scalar=scalar)) == ["Abb"]
    assert calls == [("lower($1) = 'b'", (letter,)) for letter in "bbB"]


# -- partitions and order ----------------------------------------------------------------------


def keyed(keys: list[Any], text: str, type_: pa.DataType = INT) -> pa.Table:
    return letters_table(text).append_column("k", pa.array(keys, type_))


def test_each_partition_has_its_own_matches_and_numbers() -> None:
    query = letters_query(seq(A, B), partition=("k",), keep=("k",), slots=(*letters_query(A).slots, NUMBER))
    output = match_rows(query, keyed([1, 2, 1, 2, 1, 1], "AABBAB"))
    assert output["k"].to_pylist() == [1, 1, 2]
    assert spell(output) == ["AB", "AB", "AB"]
    assert output["slot1"].to_pylist() == [1, 2, 1]


def test_null_and_nan_are_keys_like_others() -> None:
    nan = float("nan")
    table = keyed([None, nan, None, nan], "AABB", pa.float64())
    assert spell(match_rows(letters_query(seq(A, B), partition=("k",)), table)) == ["AB", "AB"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (OrderKey("k"), "CADBE"),
        (OrderKey("k", nulls_first=False), "ADBEC"),
        (OrderKey("k", descending=True), "CEBAD"),
        (OrderKey("k", descending=True, nulls_first=False), "EBADC"),
    ],
)
def test_order_puts_nan_last_nulls_as_requested_and_keeps_ties(key: OrderKey, expected: str) -> None:
    table = keyed([1.0, 2.0, None, 1.0, float("nan")], "ABCDE", pa.float64())
    query = letters_query(plus(A), conditions=ANY, order=(key,), time_column=None)
    assert spell(match_rows(query, table)) == [expected]


def test_a_later_order_key_decides_among_equals() -> None:
    table = letters_table("ABC", [1, 0, 0]).append_column("k", pa.array([0, 1, 0]))
    query = letters_query(plus(A), conditions=ANY, order=(OrderKey("t"), OrderKey("k")))
    assert spell(match_rows(query, table)) == ["CBA"]


def test_no_rows_give_no_matches() -> None:
    output = match_rows(letters_query(star(A)), letters_table(""))
    assert output.num_rows == 0
    assert output.schema.field("slot0").type == pa.list_(pa.string())
