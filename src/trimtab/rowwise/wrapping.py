"""Integers that wrap around, as in Spark, where DuckDB fails with an overflow.

Only for expressions without an obstacle (`columnar.py`), and only once DuckDB has failed: it computes with 128 bits
then, which takes several times as long.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from trimtab.rowwise.columnar import kinds_of
from trimtab.rowwise.operand_kinds import INTEGERS

_WRAPPED = exp.Add | exp.Sub | exp.Mul | exp.Neg | exp.Abs | exp.Mod | exp.IntDiv
_NAMES = dict(zip(INTEGERS, ("tinyint", "smallint", "int", "bigint"), strict=True))


def wrapping(tree: exp.Expr, schema: pa.Schema) -> exp.Expr:
    """A copy of an expression in which what is computed of integers wraps around."""
    tree = tree.copy()
    kinds = kinds_of(tree, schema)
    for node in reversed(list(tree.walk(bfs=False))):  # operands before what is computed of them
        kind = kinds.get(id(node))
        if kind not in INTEGERS or not isinstance(node, _WRAPPED):
            continue
        wrapped = _wrapped(_wide(node), kind)
        if node is tree:
            return wrapped
        node.replace(wrapped)
    return tree


def _wide(node: exp.Expr) -> exp.Expr:
    """The same of operands of 128 bits."""
    wide = type(node)()
    for name in ("this", "expression"):
        if (part := node.args.get(name)) is not None:
            wide.set(name, exp.cast(exp.Paren(this=part.copy()), "int128"))
    return exp.Paren(this=wide)


def _wrapped(wide: exp.Expr, kind: pa.DataType) -> exp.Expr:
    """The number of so many bits that is the same as this one but for what doesn't fit."""
    size, half = 1 << kind.bit_width, 1 << (kind.bit_width - 1)
    # DuckDB's remainder has the sign of the number that is divided.
    positive = _paren(exp.Add, _paren(exp.Mod, wide, size), size + half)
    return exp.cast(_paren(exp.Sub, _paren(exp.Mod, positive, size), half), _NAMES[kind])


def _paren(operator: type[exp.Binary], left: exp.Expr, right: int) -> exp.Expr:
    return exp.Paren(this=operator(this=left, expression=exp.Literal.number(right)))
