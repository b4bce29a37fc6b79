"""What stands in a resolved expression instead of names: plain marks, with numbers into tables beside the tree.

A mark says which entry of a table is meant, and nothing else: neither the engine's values nor its places travel inside
a syntax tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp

from trimtab.engine.match.ir.expression import Place
from trimtab.language.scope import Labels

HERE_NUMBER = 0
"""The current row's number in every table of places."""


class Leaf(exp.Expression):
    """A row-local expression (`this`), read at the place of a number."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "place": True}


class LabelOf(exp.Expression):
    """Inside a leaf: the label that the row is mapped to."""

    arg_types: ClassVar[dict[str, bool]] = {}


class MatchNumberMark(exp.Expression):
    """MATCH_NUMBER()."""

    arg_types: ClassVar[dict[str, bool]] = {}


class CallMark(exp.Expression):
    """The call of a number: an aggregate of a pattern or a group, or a window function."""

    arg_types: ClassVar[dict[str, bool]] = {"number": True}


class KeyMark(exp.Expression):
    """The grouping key of a number."""

    arg_types: ClassVar[dict[str, bool]] = {"number": True}


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate of a pattern: a function of the rows with some labels.

    `args` are resolved, with every leaf at the row that is aggregated. `written` is the call as it stands in the text.
    """

    function: str
    labels: Labels
    args: tuple[exp.Expr, ...]
    final: bool
    written: exp.Expr


@dataclass(frozen=True, slots=True)
class ResolvedExpression:
    """An expression of MEASURES or DEFINE in which each reference to a row is a `Leaf`, each aggregate a `CallMark`.

    The marks count in `places`, where the current row is `HERE_NUMBER`, and in `aggregates`. `written` is the
    expression as it stands in the text.
    """

    tree: exp.Expr
    places: tuple[Place, ...]
    aggregates: tuple[AggregateCall, ...]
    written: exp.Expr


@dataclass(frozen=True, slots=True)
class Facts:
    """Where an expression's values come from: places of rows, or the engine's computing."""

    places: frozenset[int]
    computed: bool

    @property
    def only_place(self) -> int | None:
        """The place, if there is just one and nothing else."""
        return next(iter(self.places)) if len(self.places) == 1 and not self.computed else None

    @property
    def constant(self) -> bool:
        """Whether nothing in it varies."""
        return not self.places and not self.computed


def facts_of(node: exp.Expr) -> Facts:
    """What a resolved expression is made of."""
    places, computed = set(), False
    for part in node.walk(prune=lambda each: isinstance(each, Leaf)):
        if isinstance(part, Leaf):
            places.add(part.args["place"])
        elif isinstance(part, CallMark | MatchNumberMark):
            computed = True
    return Facts(frozenset(places), computed)


# Nodes that are no expressions by themselves, only pieces of one.
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
