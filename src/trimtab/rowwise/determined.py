"""Which columns of a stream determine the value of an expression: where these are equal, so is it.

Equal is meant as hashes mean it, for which 0.0 and -0.0 are one number. Only comparisons and plain arithmetic are
known to give the same for both.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from sqlglot import exp, parse_one

_PLAIN = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is, exp.NullSafeEQ,
    exp.And, exp.Or, exp.Not, exp.Add, exp.Sub, exp.Mul, exp.Neg,
)  # fmt: skip


@lru_cache(maxsize=4096)
def determined_by(text: str, schema: pa.Schema) -> tuple[str, ...] | None:
    """The columns of plain values that determine a Spark SQL expression; None: that isn't known.

    >>> schema = pa.schema([("price", pa.float64()), ("bid", pa.float64())])
    >>> determined_by("PRICE < 3 AND bid + 1 > price", schema), determined_by("hex(price)", schema)
    (('bid', 'price'), None)
    """
    names = {name.lower(): name for name in schema.names}
    if len(names) < len(schema.names):
        return None
    found: set[str] = set()
    for node in parse_one(text, read="spark").walk():
        if type(node) not in _PLAIN:
            return None
        if isinstance(node, exp.Column):
            if node.table or node.name.lower() not in names:
                return None
            found.add(names[node.name.lower()])
    return None if any(pa.types.is_nested(schema.field(name).type) for name in found) else tuple(sorted(found))
