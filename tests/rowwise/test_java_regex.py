"""Which regular expressions are known to mean the same in Java and in RE2."""

from __future__ import annotations

import pytest

from trimtab.rowwise.java_regex import translated


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("abc", "abc"),
        ("a.c", r"a[^\n\r\x{85}\x{2028}\x{2029}]c"),
        (r"^\d{1,3}(\.\d+)?", r"\A[0-9]{1,3}(\.[0-9]+)?"),
        (r"\s+|\S", r"[\t\n\x0b\f\r ]+|[^\t\n\x0b\f\r ]"),
        ("[a-z_0-9.]+?", "[a-z_0-9.]+?"),
        (r"[^\d\]-]", r"[^0-9\]\-]"),
        ("(?:a|b)*c", "(?:a|b)*c"),
        ("x$", r"x(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"),
        ("é漢", "é漢"),
        ("(?i)^a1[b-dX]é", r"\A[aA]1[b-dB-DXx-x]é"),
        ("(?i)[0-9_]+", "[0-9_]+"),
        (r"C:\\dir", r"C:\\dir"),
    ],
)
def test_a_plain_pattern_is_translated(pattern: str, text: str) -> None:
    found = translated(pattern)
    assert found is not None
    assert found.text == text


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "a(?i)b",
            "(?i)[A-z]",
            "(?i)[é-z]",
            "(?s)a",
            r"\bword",
            r"\p{L}",
            r"(a)\1",
            "a(?=b)",
            "a++",
            "a*+",
            "(a*)*",
            "[a&&b]",
            "[[a]]",
            r"\Qa\E",
        ),
        *(
            "a|^b",
            "a$|b",
            "[^a]$",
            r"\s$",
            "(a",
            "a)",
            "[a",
            "*a",
            "a{2,1}",
            "a{1000}",
            r"\x41",
            "(?<n>a)",
            r"a\ "[:-1],
        ),
        *("[z-a-", "a\nb", r"[\d-z]", "^*", "$"[:0] + "a^"),
    ],
)
def test_what_may_mean_something_else_is_not(pattern: str) -> None:
    assert translated(pattern) is None


def test_it_is_known_what_may_match_nothing_and_how_many_groups_there_are() -> None:
    found = [translated(pattern) for pattern in ("a*", "a?b", "(a)|(b*)", "(?:a)(b)", "")]
    assert [each and (each.groups, each.may_match_nothing) for each in found] == [
        (0, True),
        (0, False),
        (2, True),
        (1, False),
        (0, True),
    ]
