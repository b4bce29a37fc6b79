"""Values of constant expressions by rule, so that common ones (`1 = 1`, `lower('B')`) don't start a database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.scalars import SCALARS
from trimtab.rowwise.types import infer, literal_value

Folded = tuple[Any, pa.DataType]

_COMPARE: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.LT: "<", exp.GT: ">", exp.NEQ: "<>", exp.LTE: "<=", exp.GTE: ">=",
}  # fmt: skip


def fold(node: exp.Expr) -> Folded | None:  # noqa: C901 - one case a rule
    """The value and type of a constant expression, None if no rule applies.

    >>> from sqlglot import parse_one
    >>> fold(parse_one("lower('B') IN ('a', 'b')"))
    (True, DataType(bool))
    """
    match node:
        case exp.Paren():
            return fold(node.this)
        case exp.Literal():
            type_ = infer(node, lambda _: None)
            return None if type_ is None else (literal_value(node), type_)
        case exp.Boolean():
            return bool(node.this), pa.bool_()
        case exp.Null():
            return None, pa.null()
        case exp.Cast() if isinstance(node.this, exp.Null):
            type_ = infer(node, lambda _: None)
            return None if type_ is None else (None, type_)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            inner = fold(node.this)
            return None if inner is None else (-inner[0], inner[1])
        case exp.Not() if (inner := fold(node.this)) is not None and inner[1] == pa.bool_():
            return SCALARS["not"](inner[0]), pa.bool_()
        case exp.Lower() | exp.Upper() if (text := _text(node.this)) is not None:
            # Only ASCII: databases differ on the rest.
            changed = text.lower() if isinstance(node, exp.Lower) else text.upper()
            return (changed, pa.string()) if text.isascii() else None
        case exp.Length() if (text := _text(node.this)) is not None:
            return len(text), pa.int64()
        case exp.DPipe():
            left, right = _text(node.this), _text(node.expression)
            return None if left is None or right is None else (left + right, pa.string())
        case exp.Like() if not node.args.get("escape"):
            text, pattern = _text(node.this), _text(node.expression)
            return None if text is None or pattern is None else _like(text, pattern)
        case exp.In() if set(node.args) == {"this", "expressions"}:
            return _compared("in", [node.this, *node.expressions])
        case _ if type(node) in _COMPARE:
            return _compared(_COMPARE[type(node)], [node.this, node.expression])
    return None


def _text(node: exp.Expr) -> str | None:
    folded = fold(node)
    return folded[0] if folded is not None and isinstance(folded[0], str) else None


def _compared(function: str, nodes: Sequence[exp.Expr]) -> Folded | None:
    """A comparison of constants that have the same type or none."""
    found = [fold(node) for node in nodes]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or len({type_ for _, type_ in known} - {pa.null()}) > 1:
        return None
    return SCALARS[function](*(value for value, _ in known)), pa.bool_()


def _like(text: str, pattern: str) -> Folded | None:
    if "\\" in pattern:
        return None
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None, pa.bool_()
