"""Values of constant expressions by rule, so that common ones (`1 = 1`, `lower('B')`) don't start a database."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from trimtab.rowwise.types import infer, literal_type, literal_value

Folded = tuple[Any, pa.DataType]

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq, exp.LT: operator.lt, exp.GT: operator.gt,
    exp.NEQ: operator.ne, exp.LTE: operator.le, exp.GTE: operator.ge,
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
            type_ = literal_type(node)
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
        case exp.Not():
            return _negated(fold(node.this))
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
            return _among(fold(node.this), [fold(each) for each in node.expressions])
    if type(node) in _COMPARE:
        return _compared(_COMPARE[type(node)], fold(node.this), fold(node.expression))
    return None


def _text(node: exp.Expr) -> str | None:
    folded = fold(node)
    return folded[0] if folded is not None and isinstance(folded[0], str) else None


def _negated(inner: Folded | None) -> Folded | None:
    if inner is None or inner[1] != pa.bool_():
        return None
    return (None if inner[0] is None else not inner[0]), pa.bool_()


def _compared(compare: Callable[[Any, Any], bool], left: Folded | None, right: Folded | None) -> Folded | None:
    if left is None or right is None or (left[1] != right[1] and pa.null() not in (left[1], right[1])):
        return None
    if left[0] is None or right[0] is None:
        return None, pa.bool_()
    return bool(compare(left[0], right[0])), pa.bool_()


def _among(value: Folded | None, others: list[Folded | None]) -> Folded | None:
    if value is None or value[0] is None:
        return None
    found = [_compared(operator.eq, value, other) for other in others]
    answers = [each[0] for each in found if each is not None]
    if len(answers) < len(found):
        return None
    return (True if True in answers else None if None in answers else False), pa.bool_()


def _like(text: str, pattern: str) -> Folded | None:
    if "\\" in pattern:
        return None
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None, pa.bool_()
