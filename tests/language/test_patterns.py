"""Row patterns from text to tree, shown in a short notation."""

from __future__ import annotations

import pytest

from trimtab.engine.match.ir.pattern import Alternate, At, Concat, Exclude, Label, Pattern, Permute, Quantify
from trimtab.errors import QueryError
from trimtab.language.cut_patterns import cut_patterns
from trimtab.language.patterns import parse_pattern


def show(pattern: Pattern, labels: tuple[str, ...]) -> str:
    """The tree with every group in parentheses, `!` for exclusion, `%` for permute."""
    match pattern:
        case Label(index):
            return labels[index]
        case At(anchor):
            return anchor.value
        case Concat(items):
            return "(" + " ".join(show(item, labels) for item in items) + ")"
        case Alternate(items):
            return "(" + " | ".join(show(item, labels) for item in items) + ")"
        case Permute(items):
            return "%(" + ", ".join(show(item, labels) for item in items) + ")"
        case Exclude(item):
            return "!" + show(item, labels)
        case Quantify(item, low, high, greedy):
            upper = "" if high is None else high
            return f"{show(item, labels)}{{{low},{upper}}}" + ("" if greedy else "?")


def parsed(text: str) -> str:
    found = parse_pattern(text, 0, text)
    return show(found.pattern, tuple(label.identity for label in found.labels))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A", "A"),
        ("A B C", "(A B C)"),
        ("A | B C | D", "(A | (B C) | D)"),
        ("(A | B) C", "((A | B) C)"),
        ("A* B+ C?", "(A{0,} B{1,} C{0,1})"),
        ("A*? B+? C??", "(A{0,}? B{1,}? C{0,1}?)"),
        ("A{3} B{3,} C{,3} D{2,3} E{,}", "(A{3,3} B{3,} C{0,3} D{2,3} E{0,})"),
        ("A{3}? B{2,3}?", "(A{3,3}? B{2,3}?)"),
        ("(A B)+", "(A B){1,}"),
        ("((A))", "A"),
        ("()", "()"),
        ("() | A", "(() | A)"),
        ("", "()"),
        ("^ A $", "(^ A $)"),
        ("^A^", "(^ A ^)"),
        ("A $$", "(A $ $)"),
        ("^* A $+", "(^{0,} A ${1,})"),
        ("A {- B+ -} C", "(A !B{1,} C)"),
        ("{-A-}{1,2}", "!A{1,2}"),
        ("{- A {- B -} -}", "!(A !B)"),
        ("PERMUTE(A, B+ | C, D E)", "%(A, (B{1,} | C), (D E))"),
        ("PERMUTE(A)", "A"),
        ("permute", "PERMUTE"),
        ("A B* timeout", "(A B{0,} TIMEOUT)"),
        ("A /* one */ B -- two\n C", "(A B C)"),
        ("LAST FIRST", "(LAST FIRST)"),
        ("`a b`+ `c``d`", "(a b{1,} c`d)"),
        ("größe é_1", "(GRÖSSE É_1)"),
    ],
)
def test_a_pattern_is_read_as_the_standard_groups_it(text: str, tree: str) -> None:
    assert parsed(text) == tree


def test_case_matters_in_quoted_labels_only() -> None:
    found = parse_pattern("a A `a` `A`", 0, "a A `a` `A`")
    assert [label.identity for label in found.labels] == ["A", "a"]
    assert found.pattern == Concat((Label(0), Label(0), Label(1), Label(0)))


def test_a_label_is_remembered_as_it_was_first_written() -> None:
    found = parse_pattern("up Up DOWN", 0, "up Up DOWN")
    assert [label.written for label in found.labels] == ["up", "DOWN"]


@pytest.mark.parametrize(
    ("text", "code", "underlined"),
    [
        ("A{3,1}", "query.quantifier", "{3,1}"),
        ("A{0}", "query.quantifier", "{0}"),
        ("A{0,0}", "query.quantifier", "{0,0}"),
        ("A{}", "query.quantifier", "{}"),
        ("A{2}{3}", "query.quantifier", "{2}{"),
        ("A**", "query.quantifier", "**"),
        ("A ||  B", "query.syntax", "|"),
        ("| A", "query.syntax", "|"),
        ("A )", "query.syntax", ")"),
        ("(A B", "query.syntax", "("),
        ("{- A", "query.syntax", "{-"),
        ("PERMUTE(A, B", "query.syntax", "PERMUTE"),
        ("A & B", "query.syntax", "&"),
        ("'A'", "query.syntax", "'"),
        ("+ A", "query.syntax", "+"),
        ("A{2", "query.syntax", ""),
        ("A{9999999999}", "query.too-large", "9999999999"),
        ("(A{200}){200}", "query.too-large", "(A{200}){200}"),
        ("PERMUTE(A,B,C,D,E,F,G,H,I)", "query.too-large", "PERMUTE(A,B,C,D,E,F,G,H,I)"),
        ("(" * 101 + "A" + ")" * 101, "query.too-large", "(" * 101 + "A" + ")" * 101),
    ],
)
def test_a_mistake_in_a_pattern_is_underlined(text: str, code: str, underlined: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_pattern(text, 0, text)
    assert caught.value.code == code
    assert text[caught.value.start : caught.value.stop] == underlined


def test_a_pattern_that_swallowed_the_next_clause_says_so() -> None:
    text = "A (B) DEFINE A AS price > 0"
    with pytest.raises(QueryError, match="missing before DEFINE"):
        parse_pattern(text, 0, text)


def test_patterns_are_cut_out_and_offsets_stay() -> None:
    sql = "SELECT '(' FROM t MATCH_RECOGNIZE (PATTERN (A $$\n {- B -}) DEFINE A AS x = ')')"
    rest, patterns = cut_patterns(sql)
    assert patterns == {sql.index("A $$"): "A $$\n {- B -}"}
    assert len(rest) == len(sql)
    assert rest.index("DEFINE") == sql.index("DEFINE")
    assert rest.count("\n") == 1


def test_only_the_clause_pattern_is_cut() -> None:
    sql = "SELECT pattern (x) FROM pattern WHERE a = 'MATCH_RECOGNIZE (PATTERN (A))' -- PATTERN (B)"
    assert cut_patterns(sql)[1] == {}


def test_an_unclosed_pattern_is_underlined() -> None:
    sql = "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A (B)"
    with pytest.raises(QueryError) as caught:
        cut_patterns(sql)
    assert (caught.value.code, caught.value.start) == ("query.syntax", sql.index("(A"))
