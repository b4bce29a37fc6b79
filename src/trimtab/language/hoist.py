"""Row-local pieces of an expression, computed once per row before the engine runs.

A piece that reads only one place needs no engine: the intake computes it for every
row, and the engine reads the result at that place, as one `RowValue`. Constants are folded here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.expression import Aggregate, Const, Expr, Place, RowValue, Source
from trimtab.language import oracle
from trimtab.language.calls import retyped
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.intervals import interval_length
from trimtab.language.marks import CONSTANT, HERE_NUMBER, MIXED, LabelOf, Leaf, marked_value, place_of, rebuilt
from trimtab.language.mistakes import placed
from trimtab.language.relation import enclosed
from trimtab.language.scope import Scope
from trimtab.rowwise import duck
from trimtab.rowwise.types import DURATION

# A null operand makes these null, so DuckDB needn't be asked for their value where there is no row.
_STRICT = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg),
    *(exp.Abs, exp.Sqrt, exp.Ln, exp.Exp, exp.Pow, exp.Floor, exp.Ceil, exp.Round),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Not, exp.Paren, exp.Cast),
    *(exp.Like, exp.ILike, exp.Lower, exp.Upper, exp.Length, exp.Trim, exp.Substring, exp.DPipe),
    *(exp.DateDiff, exp.TimestampDiff, exp.TsOrDsToDate),
)


@dataclass(frozen=True, slots=True)
class Hoister:
    """Makes `RowValue`s of pieces of one resolved expression, whose table of places it has.

    `label` is the label under definition, None in MEASURES.
    """

    columns: IntakeColumns
    scope: Scope
    places: tuple[Place, ...]
    label: int | None = None

    def hoist(self, node: exp.Expr, place: int, *, own_label: bool = True) -> RowValue:
        """The piece as a value read at the place that all its leaves have.

        `own_label`: the current row is the one under definition, whose label is known.
        """
        value = _without_leaves(node, lambda leaf: leaf.this)
        defined = self.label if place == HERE_NUMBER else None
        by_label = value.find(LabelOf) is not None
        if by_label and own_label and defined is not None:
            value, by_label = _labelled(value, self.scope.shown[defined]), False
        if by_label:
            sources, type_ = self._by_label(value, self.places[place])
        else:
            source, type_ = self._source(value)
            sources = (source,)
        # The row under definition always exists, so its default is never read.
        default = None if defined is not None else self._default(node)
        return RowValue(self.places[place], sources, Const(default, type_), type_)

    def _source(self, value: exp.Expr) -> tuple[Source, pa.DataType]:
        if value.find(exp.Column) is None:
            const = self.constant(value)
            return const, const.type
        return self.columns.add_typed(value.unnest())

    def _by_label(self, value: exp.Expr, place: Place) -> tuple[tuple[Source, ...], pa.DataType]:
        """A source for each label, and one for a row that is mapped to none."""
        found: list[tuple[Source, pa.DataType] | None] = []
        for number, shown in enumerate(self.scope.shown):
            possible = place.shift or place.labels is None or number in place.labels
            found.append(self._source(_labelled(value, shown)) if possible else None)
        found.append(self._source(_labelled(value, None)))
        type_ = next((each[1] for each in found if each and each[1] != pa.null()), pa.null())
        sources: list[Source] = []
        for each in found:
            source = each[0] if each else Const(None, type_)
            sources.append(retyped(source, type_) if isinstance(source, Const) else source)
        return tuple(sources), type_

    def _default(self, node: exp.Expr) -> object:
        """The piece's value where there is no row: every leaf is null then."""
        if _is_null_over_nulls(node):
            return None
        context = self.scope.context
        types: list[tuple[str, pa.DataType]] = []

        def number(leaf: Leaf) -> exp.Expr:
            labelled = _labelled(leaf.this, "")
            constant = labelled.find(exp.Column) is None
            type_ = self.constant(labelled).type if constant else context.relation.type_of(labelled)
            types.append((f"leaf{len(types)}", type_))
            return exp.column(types[-1][0])

        return oracle.value_over_nulls(context.sql, _without_leaves(node, number), types)

    def over_columns(
        self,
        node: exp.Expr,
        aggregates: Sequence[Aggregate],
        hoisted: Callable[[exp.Expr, int], Expr],
        column: Callable[[Any], exp.Expr],
    ) -> exp.Expr:
        """The expression over columns: one for each piece that has one place, each aggregate and MATCH_NUMBER()."""
        place = place_of(node)
        if place == CONSTANT:
            return node.copy()
        if isinstance(node, exp.Lambda):  # its variables mean nothing in pieces computed outside of it
            message = "a lambda function can look at one row only"
            raise self.scope.context.error("query.row-wise", message, node)
        value = marked_value(node, aggregates) if place == MIXED else hoisted(node, place)
        if value is None:
            return rebuilt(node, lambda part: self.over_columns(part, aggregates, hoisted, column))
        return placed(column(value), node)

    def constant(self, node: exp.Expr) -> Const:
        """The value of an expression without columns."""
        if (length := interval_length(node)) is not None:
            return Const(length, DURATION)
        return Const(*oracle.constant(self.scope.context.sql, node))


def _without_leaves(node: exp.Expr, replacement: Callable[[Leaf], exp.Expr]) -> exp.Expr:
    def change(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, Leaf):
            return part
        new = replacement(part)
        atomic = part.parent is None or isinstance(new, LabelOf)
        return new.copy() if atomic else enclosed(new)

    return duck.bottom_up(node, change)


def _labelled(node: exp.Expr, shown: str | None) -> exp.Expr:
    """The expression for a row that is mapped to a label, or to none."""
    null = exp.cast(exp.null(), "string", dialect="spark")
    literal = null if shown is None else exp.Literal.string(shown)
    return duck.bottom_up(node, lambda part: literal.copy() if isinstance(part, LabelOf) else part)


def _is_null_over_nulls(node: exp.Expr) -> bool:
    match node:
        case Leaf():
            return True
        case exp.And() | exp.Or():
            return _is_null_over_nulls(node.this) and _is_null_over_nulls(node.expression)
        case exp.In() | exp.Between():
            return _is_null_over_nulls(node.this)
        case _ if isinstance(node, _STRICT):
            return any(_is_null_over_nulls(part) for part in node.iter_expressions())
    return False
