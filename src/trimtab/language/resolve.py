"""Pass 4, `resolve`: from the operator's syntax to what it means.

Before: the operator as it is written, and the relation that it reads. After: its clauses are checked against each other
and every name in them is resolved: to columns of the relation, to labels and places of a pattern, to functions. What
crosses rows is a mark in a tree and an entry in a table beside it (`marks.py`); everything else in a tree is row-local.
A query without an operator has nothing left to resolve: its names were resolved when its SELECTs were merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from trimtab.language.dialect import MatchRecognize, TableFunction
from trimtab.language.merge import Context
from trimtab.language.resolve_function import ResolvedFunction, resolve_function
from trimtab.language.resolve_match import ResolvedMatch, resolve_match

if TYPE_CHECKING:
    from trimtab.language.resolve_group import ResolvedGroup
    from trimtab.language.resolve_windows import ResolvedOver


@dataclass(frozen=True, slots=True)
class Resolved:
    """The operator, resolved, and what it reads."""

    context: Context
    operator: ResolvedMatch | ResolvedOver | ResolvedGroup | ResolvedFunction | None


def resolve(context: Context) -> Resolved:
    """Resolve the operator. Raises QueryError."""
    match context.chain.operator:
        case None:
            return Resolved(context, None)
        case MatchRecognize() as node:
            return Resolved(context, resolve_match(context, node, context.chain.patterns))
        case TableFunction() as node:
            return Resolved(context, resolve_function(context, node))
        case exp.Select() as node:
            # Windows import a good part of the engine: queries without them shouldn't wait for that.
            from trimtab.language.resolve_windows import resolve_windows

            return Resolved(context, resolve_windows(context, node))
