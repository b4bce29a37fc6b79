"""Columns that are a number more or less than another column of a pattern: its conditions compute these themselves.

`B.price > A.price + 2.5` reads a computed column, `price + 2.5`, which the intake would compute for every row, and the
state would keep. Where the pattern reads `price` anyway, its kernel adds the number where it reads, and queries that
differ in such numbers read the same columns. Only for doubles, which never fail and need no wrapping, and only sums and
differences, which give no NaN where there was none.

What a query remembers doesn't change: registers know rows, not values. So its signature is that of the query as it was
compiled, and an engine goes on from state that has the computed column, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp, parse_one

from trimtab.engine.match.ir.expression import Call, Const, Expr, RowValue, walk
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.language.compiled import Query
from trimtab.rowwise.local import bare_column

_NUMBER = re.compile(r"\d{1,15}|(?=.{1,16}$)\d+\.\d+")
"""Numbers with so few digits are the same doubles whichever way they are converted."""
_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-"}


@dataclass(frozen=True, slots=True)
class _Sum:
    """A column and a number, of which the number may come first."""

    function: str
    column: str
    number: float
    is_reversed: bool

    def of(self, value: RowValue) -> Call:
        """The sum, where the column is read as this value is."""
        read: Expr = replace(value, sources=(self.column,))
        number: Expr = Const(self.number, value.type)
        return Call(self.function, (number, read) if self.is_reversed else (read, number), value.type)


def inlined(query: Query) -> Query:
    """The query with such columns computed by the conditions, and no longer by the intake; else the query itself."""
    operator = query.operator
    if not isinstance(operator, MatchQuery):
        return query
    found = _sums(query, operator)
    if not found:
        return query
    conditions = tuple(None if each is None else _replaced(each, found) for each in operator.conditions)
    left = [number for number, (name, _) in enumerate(query.intake.columns) if name not in found]
    intake = replace(
        query.intake,
        columns=tuple(query.intake.columns[number] for number in left),
        types=tuple(query.intake.types[number] for number in left) if query.intake.types else (),
    )
    return replace(query, intake=intake, operator=replace(operator, conditions=conditions))


def _sums(query: Query, operator: MatchQuery) -> Mapping[str, _Sum]:
    """The columns that can be computed by conditions, by name."""
    conditions = [each for each in operator.conditions if each is not None]
    plain = [value for each in conditions for value in _plain_values(each)]
    doubles = {value.sources[0] for value in plain if value.type == pa.float64() and value.default.value is None}
    needed: set[object] = {*operator.partition, *operator.keep, operator.time_column}
    needed |= {key.column for key in operator.order}
    elsewhere = [*operator.slots, *(part for each in conditions for part in _within(each))]
    needed |= {
        source for each in elsewhere for part in walk(each) if isinstance(part, RowValue) for source in part.sources
    }
    needed |= {source for value in plain if value.type != pa.float64() for source in value.sources}
    names = {own.lower(): name for name, text in query.intake.columns if (own := bare_column(text)) is not None}
    found = {}
    for name, text in query.intake.columns:
        if name in doubles and name not in needed:
            made = _parsed(text, names)
            if made is not None and made.column in doubles:
                found[name] = made
    return found


def _plain_values(expr: Expr) -> Iterator[RowValue]:
    """The row values of one source that calls lead to."""
    if isinstance(expr, RowValue) and len(expr.sources) == 1:
        yield expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from _plain_values(arg)


def _within(expr: Expr) -> Iterator[Expr]:
    """The parts of a condition that calls lead to, but for those of `_plain_values`."""
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _within(arg)
    elif not (isinstance(expr, RowValue) and len(expr.sources) == 1):
        yield expr


def _parsed(text: str, names: Mapping[str, str]) -> _Sum | None:
    tree = parse_one(text, read="spark").unnest()
    function = _SIGNS.get(type(tree))
    if function is None:
        return None
    left, right = tree.this.unnest(), tree.expression.unnest()
    is_reversed = isinstance(left, exp.Literal)
    column, number = (right, left) if is_reversed else (left, right)
    if not (isinstance(column, exp.Column) and not column.table and isinstance(number, exp.Literal)):
        return None
    name = names.get(column.name.lower())
    if name is None or number.is_string or not _NUMBER.fullmatch(number.name):
        return None
    return _Sum(function, name, float(number.name), is_reversed)


def _replaced(expr: Expr, found: Mapping[str, _Sum]) -> Expr:
    match expr:
        case RowValue(_, (str() as source,)) if source in found:
            return found[source].of(expr)
        case Call(_, args):
            return replace(expr, args=tuple(_replaced(arg, found) for arg in args))
        case _:
            return expr
