"""Marks replace names in a resolved expression: each holds the number of an entry in a table beside the tree.

A mark holds nothing else: neither the engine's values nor its places are stored inside a syntax tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp

from trimtab.engine.match.ir.expression import Aggregate, MatchNumber, Place
from trimtab.language.scope import Labels

HERE_NUMBER = 0
"""The current row's number in every table of places."""
CONSTANT, MIXED = -1, -2
"""In place of a place's number: see `place_of`."""


class Leaf(exp.Expression):
    """A row-local expression (`this`), read at the place with this number."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "place": True}


class LabelOf(exp.Expression):
    """Inside a leaf: the label that the row is mapped to."""

    arg_types: ClassVar[dict[str, bool]] = {}


class MatchNumberMark(exp.Expression):
    """MATCH_NUMBER()."""

    arg_types: ClassVar[dict[str, bool]] = {}


class CallMark(exp.Expression):
    """The call with this number: an aggregate of a pattern or a group, or a window function."""

    arg_types: ClassVar[dict[str, bool]] = {"number": True}


class KeyMark(exp.Expression):
    """The grouping key with this number."""

    arg_types: ClassVar[dict[str, bool]] = {"number": True}


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate of a pattern: a function of the rows with some labels.

    `args` are resolved, with every leaf at the row that is aggregated. `written` is the call's syntax.
    """

    function: str
    labels: Labels
    args: tuple[exp.Expr, ...]
    final: bool
    written: exp.Expr


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """An expression of MEASURES or DEFINE in which each reference to a row is a `Leaf`, each aggregate a `CallMark`.

    The numbers in marks are positions in `places`, where the current row is `HERE_NUMBER`, and in `aggregates`.
    `written` is the expression's syntax.
    """

    tree: exp.Expr
    places: tuple[Place, ...]
    aggregates: tuple[AggregateCall, ...]
    written: exp.Expr


def place_of(node: exp.Expr) -> int:
    """The number of the one place that a resolved expression is read at.

    CONSTANT where nothing in it varies, MIXED where it has several places or something that the engine computes.
    """
    found: set[int] = set()
    for part in node.walk(prune=lambda each: isinstance(each, Leaf)):
        if isinstance(part, Leaf):
            found.add(part.args["place"])
        elif isinstance(part, CallMark | MatchNumberMark):
            found.add(MIXED)
    return found.pop() if len(found) == 1 else MIXED if found else CONSTANT


def marked_value(node: exp.Expr, aggregates: Sequence[Aggregate]) -> Aggregate | MatchNumber | None:
    """The value that a mark stands for, None for any other node."""
    if isinstance(node, CallMark):
        return aggregates[int(node.args["number"])]
    return MatchNumber() if isinstance(node, MatchNumberMark) else None


# Nodes that aren't expressions by themselves, only pieces of one.
_PARTS = (exp.PropertyEQ, exp.Kwarg, exp.Slice)


def rebuilt(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The node with its operands changed; names, types and units in it stay as they are."""

    def part(value: Any) -> Any:
        if isinstance(value, list):
            return [part(each) for each in value]
        if not isinstance(value, exp.Expr):
            return value
        if isinstance(value, _PARTS) or (isinstance(value, exp.If) and isinstance(node, exp.Case)):
            return rebuilt(value, change)
        fixed = isinstance(value, exp.Identifier | exp.Var | exp.DataType | exp.IntervalSpan)
        return value.copy() if fixed else change(value)

    new = type(node)(**{key: part(value) for key, value in node.args.items()})
    new.meta.update(node.meta)
    return new
