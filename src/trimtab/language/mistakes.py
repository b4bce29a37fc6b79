"""Mistakes in a query's text: find the place of a syntax node, and say what was probably meant.

sqlglot leaves offsets on the leaves it parsed; the place of a larger node is the stretch from its
first leaf to its last. Nothing here decides what is wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from sqlglot import exp

from trimtab.errors import QueryError

Node = TypeVar("Node", bound=exp.Expr)
Span = tuple[int, int]
"""Character offsets into the query's text, the second exclusive."""
BEFORE = "in the DataFrame or table that the query reads"
"""Where a user does what a query can't do with the rows that it reads."""
# Functions of other systems for what is written in Spark's words here.
_INSTEAD = {
    "tumble": "GROUP BY window(ts, '10 minutes')",
    "hop": "GROUP BY window(ts, '10 minutes', '5 minutes'), with the size before the slide",
    "session": "GROUP BY session_window(ts, '10 minutes')",
    **{
        f"{theirs}_{part}": f"{ours}.{bound} in the SELECT"
        for theirs, ours in (("tumble", "window"), ("hop", "window"), ("session", "session_window"))
        for part, bound in (("start", "start"), ("end", "end"), ("rowtime", "end"))
    },
}


def span_of(node: exp.Expr) -> Span | None:
    """Where a node is in the text, or None for one that wasn't parsed from it.

    >>> from sqlglot import parse_one
    >>> span_of(parse_one("SELECT a + price FROM t").expressions[0])
    (7, 16)
    """
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if not places:
        return None
    return min(meta["start"] for meta in places), max(meta.get("stop", meta["end"] + 1) for meta in places)


def node_start(node: exp.Expr) -> Span:
    """The first word of a clause."""
    return node.meta["start"], node.meta["end"] + 1


def mistake(sql: str, code: str, message: str, at: exp.Expr | Span | None = None, hint: str = "") -> QueryError:
    """The error for a place in a query; without a place the first character is underlined."""
    while isinstance(at, exp.Expr):  # one that wasn't parsed is part of one that was
        at = span_of(at) or at.parent
    start, stop = at or (0, min(1, len(sql)))
    return QueryError(code, message, sql, start, stop, hint)


def placed(new: Node, old: exp.Expr) -> Node:
    """The new node, with the old one's place in the text."""
    if span := span_of(old):
        new.meta.update(start=span[0], end=span[1] - 1, stop=span[1])
    return new


def did_you_mean(name: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """A hint with the nearest of the candidates, or `otherwise`.

    >>> did_you_mean("prise", ["price", "quantity"])
    'did you mean price?'
    """
    near = nearest(name, candidates, 0.6)
    return f"did you mean {near}?" if near else otherwise


def nearest(name: str, candidates: Iterable[str], likeness: float) -> str:
    """The candidate that is most like a name, if it is at least so alike (1.0: equal); otherwise the empty string."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[near[0]] if near else ""


def listing(names: Sequence[str], limit: int = 12) -> str:
    """Names for a hint, at most `limit` of them."""
    return ", ".join(names[:limit]) + (" ..." if len(names) > limit else "")


def instead_of(function: str) -> str:
    """A hint with what to write instead of a function; empty: it isn't known from other systems.

    >>> instead_of("TUMBLE")
    "windows are written as in Spark: GROUP BY window(ts, '10 minutes')"
    """
    found = _INSTEAD.get(function.lower())
    return f"windows are written as in Spark: {found}" if found else ""
