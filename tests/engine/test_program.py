"""Whole programs as text: what a pattern compiles to."""

import textwrap

import pytest

from trimtab.engine.match.compile.program import compile_pattern
from trimtab.engine.match.ir.pattern import Alternate, Anchor, At, Concat, Exclude, Label, Pattern, Permute, Quantify
from trimtab.errors import QueryError

A, B, C = Label(0), Label(1), Label(2)


def dump(pattern: Pattern) -> str:
    lines = compile_pattern(pattern, ("A", "B", "C")).dump().splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def program(text: str) -> str:
    return textwrap.dedent(text).strip()


def test_a_plus_loops_on_its_own_position() -> None:
    assert dump(Concat((A, Quantify(B, 1, None, True), C))) == program("""
        start -> 0:A
        0 A -> 1:B
        1 B -> 1:B, 2:C
        2 C -> done""")


def test_a_reluctant_loop_prefers_to_leave() -> None:
    assert dump(Concat((Quantify(A, 0, None, False), B))) == program("""
        start -> 0:B, 1:A
        0 B -> done
        1 A -> 0:B, 1:A""")


def test_a_counted_quantifier_has_a_position_for_each_iteration() -> None:
    assert dump(Quantify(A, 1, 3, True)) == program("""
        start -> 0:A
        0 A -> 1:A, done
        1 A -> 2:A, done
        2 A -> done""")


def test_no_step_after_an_unconditional_end_is_kept() -> None:
    assert dump(Alternate((Concat(()), A))) == "start -> done"


def test_an_optional_iteration_of_an_endless_loop_is_never_empty() -> None:
    either = Alternate((Concat(()), A))
    assert dump(Quantify(either, 0, None, True)) == program("""
        start -> 0:A, done
        0 A -> 0:A, done""")
    assert dump(Quantify(Quantify(A, 0, 1, True), 0, None, True)) == program("""
        start -> 0:A, done
        0 A -> 0:A, done""")
    assert dump(Quantify(either, 1, None, True)) == "start -> done"  # a required one may be, and then the loop ends
    assert dump(Quantify(Alternate((A, Concat(()))), 2, None, True)) == program("""
        start -> 0:A, 1:A, done
        0 A -> 1:A, done
        1 A -> 1:A, done""")


def test_an_empty_iteration_ends_a_loop_with_an_upper_bound() -> None:
    assert dump(Quantify(Alternate((Concat(()), A)), 0, 9, True)) == "start -> done"


def test_start_can_only_hold_before_the_first_row_and_end_only_after_a_row() -> None:
    assert dump(Concat((At(Anchor.START), A, At(Anchor.END)))) == program("""
        start -> ^ 0:A
        0 A -> $ done""")
    assert dump(Concat((A, At(Anchor.START)))) == "start -> never"
    assert dump(Concat((At(Anchor.END), A))) == "start -> never"


def test_a_timeout_is_a_condition_of_a_step() -> None:
    assert dump(Concat((A, Quantify(B, 0, None, True), At(Anchor.TIMEOUT)))) == program("""
        start -> 0:A
        0 A -> 1:B, TIMEOUT done
        1 B -> 1:B, TIMEOUT done""")


def test_excluded_rows_are_marked() -> None:
    assert dump(Concat((A, Exclude(B)))) == program("""
        start -> 0:A
        0 A -> 1:B
        1 B (hidden) -> done""")


def test_orders_of_a_permutation_share_their_ends() -> None:
    assert dump(Permute((A, B, C))) == program("""
        start -> 0:A, 1:B, 2:C
        0 A -> 3:B, 4:C
        1 B -> 5:A, 6:C
        2 C -> 7:A, 8:B
        3 B -> 9:C
        4 C -> 10:B
        5 A -> 9:C
        6 C -> 11:A
        7 A -> 10:B
        8 B -> 11:A
        9 C -> done
        10 B -> done
        11 A -> done""")
    six = compile_pattern(Permute(tuple(Label(i) for i in range(6))), tuple("ABCDEF"))
    assert len(six.positions) == 6 * 2**5


def test_a_pattern_that_expands_too_far_is_refused() -> None:
    with pytest.raises(QueryError, match="more than 10000") as caught:
        compile_pattern(Quantify(Quantify(A, 200, 200, True), 200, 200, True), ("A",))
    assert caught.value.code == "query.too-large"
