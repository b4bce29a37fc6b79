"""A few words to write patterns over letters in Python, for tests of an engine without its SQL.

A table of letters has a row for each letter of a text; the label `A` fits the rows with an "A".

>>> from tests.support.reference import match_rows
>>> query = letters_query(seq(A, plus(B)))
>>> spell(match_rows(query, letters_table("ABBCAB")))
['ABB', 'AB']
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.match.ir.expression import HERE, Aggregate, Call, Const, Expr, Place, RowValue
from trimtab.engine.match.ir.pattern import (
    EMPTY,
    Alternate,
    Anchor,
    At,
    Concat,
    Exclude,
    Label,
    Pattern,
    Permute,
    Quantify,
)
from trimtab.engine.match.ir.query import MatchQuery, Rows, SkipPastLast

__all__ = [
    "EMPTY",
    "END",
    "START",
    "TIMEOUT",
    "A",
    "B",
    "C",
    "D",
    "E",
    "either",
    "hide",
    "letters_query",
    "letters_table",
    "maybe",
    "permute",
    "plus",
    "read",
    "seq",
    "spell",
    "star",
    "times",
]

A, B, C, D, E = (Label(i) for i in range(5))
START, END, TIMEOUT = At(Anchor.START), At(Anchor.END), At(Anchor.TIMEOUT)
_LETTERS = "ABCDE"
_DAWN = datetime.datetime(2026, 1, 1)


def seq(*items: Pattern) -> Pattern:
    """The items one after another."""
    return Concat(items)


def either(*items: Pattern) -> Pattern:
    """One of the items, an earlier one preferred."""
    return Alternate(items)


def permute(*items: Pattern) -> Pattern:
    """The items in any order, the written one preferred."""
    return Permute(items)


def hide(item: Pattern) -> Pattern:
    """The item, left out of ALL ROWS PER MATCH."""
    return Exclude(item)


def times(item: Pattern, low: int, high: int | None = None, *, greedy: bool = True) -> Pattern:
    """The item from `low` to `high` times."""
    return Quantify(item, low, high, greedy)


def star(item: Pattern, *, greedy: bool = True) -> Pattern:
    """The item any number of times."""
    return Quantify(item, 0, None, greedy)


def plus(item: Pattern, *, greedy: bool = True) -> Pattern:
    """The item once or more."""
    return Quantify(item, 1, None, greedy)


def maybe(item: Pattern, *, greedy: bool = True) -> Pattern:
    """The item once or not at all."""
    return Quantify(item, 0, 1, greedy)


def read(column: str, place: Place = HERE, type_: pa.DataType = pa.string()) -> RowValue:
    """A column at a place, null where there is no row."""
    return RowValue(place, (column,), Const(None, type_), type_)


def letters_query(pattern: Pattern, **changes: Any) -> MatchQuery:
    """A query over a table of letters, one row per match; `changes` replace fields of `MatchQuery`.

    Its first slot is the list of the matched letters.
    """
    conditions: tuple[Expr | None, ...] = tuple(
        Call("=", (read("letter"), Const(letter, pa.string())), pa.bool_()) for letter in _LETTERS
    )
    letters = Aggregate("array_agg", None, (read("letter"),), pa.list_(pa.string()))
    query = MatchQuery(
        labels=tuple(_LETTERS),
        pattern=pattern,
        conditions=conditions,
        slots=(letters,),
        rows=Rows.ONE,
        skip=SkipPastLast(),
        partition=(),
        order=(OrderKey("t"),),
        keep=(),
        time_column="t",
    )
    return replace(query, **changes)


def letters_table(text: str, seconds: Iterable[int] | None = None) -> pa.Table:
    """A row for each letter; by default one comes each second. Columns: `t`, `letter`."""
    moments = [
        _DAWN + datetime.timedelta(seconds=second) for second in (range(len(text)) if seconds is None else seconds)
    ]
    return pa.table({"t": pa.array(moments, pa.timestamp("us")), "letter": pa.array(text, pa.string())})


def spell(output: pa.Table) -> list[str]:
    """The lists of letters in `slot0` as words; an empty match is an empty word."""
    return ["".join(letters or ()) for letters in output["slot0"].to_pylist()]
