"""Types of operands that go together the same way in Spark and in DuckDB, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from trimtab.rowwise.types import MAX_PRECISION, literal_type

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = dict(zip(INTEGERS, (3, 5, 10, 19), strict=True))
_EXACT_DIGITS = 15
"""Decimals of up to this many digits are the same double everywhere."""
SMALL = pa.uint32()
"""Stands for the type of lengths and years, an int in Spark and a bigint in DuckDB: they can be compared, no more."""


class ObstacleError(Exception):
    """Why an expression can't be computed over columns."""


def unknown(what: str) -> ObstacleError:
    """The obstacle that something isn't on the list."""
    return ObstacleError(f"{what} isn't known to give the same here as in Spark")


def kind_of_literal(node: exp.Literal) -> pa.DataType:
    """The type of a number or a text that is written out."""
    kind = literal_type(node)
    if kind is None or (pa.types.is_decimal(kind) and not is_exact(kind)):
        raise ObstacleError(f"{node.sql('spark')} has more digits than are known to be read the same")
    return kind


def compared(name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type of a comparison of operands, each with every other."""
    known = [kind for kind in kinds if kind != pa.null()]
    for left in known:
        for right in known:
            if left != right and not _are_comparable(left, right):
                raise unknown(f"{name} of {left} and {right}")
    return pa.bool_()


def _are_comparable(left: pa.DataType, right: pa.DataType) -> bool:
    whole = (*INTEGERS, SMALL)
    if left in whole and right in whole:
        return True
    if pa.float64() in (left, right):
        return all(is_double(kind) for kind in (left, right))
    if pa.float32() in (left, right):
        return any(is_exact(kind) for kind in (left, right))
    sizes = [_size(kind) for kind in (left, right)]
    return all(before >= 0 for before, _ in sizes) and sum(map(max, zip(*sizes, strict=True))) <= MAX_PRECISION


def _size(kind: pa.DataType) -> tuple[int, int]:
    """How many digits there are before and after the point; -1 before it: the type has none."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return _DIGITS.get(kind, -1), 0


def is_exact(kind: pa.DataType) -> bool:
    """Whether the type is that of decimals, all of which are the same double everywhere."""
    return bool(pa.types.is_decimal(kind) and kind.precision <= _EXACT_DIGITS)


def is_double(kind: pa.DataType) -> bool:
    """Whether operands of the type become doubles beside a double, and the same ones."""
    return bool(kind in (*INTEGERS, pa.float32(), pa.float64()) or is_exact(kind))


def common(name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type of what is one of several results: theirs, the widest of integers, or a double beside numbers."""
    found = {kind for kind in kinds if kind != pa.null()}
    if found and found <= set(INTEGERS):
        return max(found, key=INTEGERS.index)
    if pa.float64() in found and all(map(is_double, found)):
        return pa.float64()
    if len(found) == 1 and SMALL not in found:
        return found.pop()
    raise ObstacleError(f"{name} has results of several types, or of none that is known to be the same in Spark")


def computed(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of a sum, a difference or a product."""
    kinds = (left, right)
    if all(kind in INTEGERS for kind in kinds):
        return max(kinds, key=INTEGERS.index)
    if pa.float64() in kinds and all(map(is_double, kinds)):
        return pa.float64()
    if left == right == pa.float32():
        return left
    raise unknown(f"{name} of {left} and {right}")


def divided(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of a quotient."""
    if all(kind in (*INTEGERS, pa.float64()) for kind in (left, right)):
        return pa.float64()
    raise unknown(f"/ of {left} and {right}")


def remaining(left: pa.DataType, right: pa.DataType, divisor: exp.Expr) -> pa.DataType:
    """The type of a remainder; of integers only by a plain number: the lowest by -1 fails in DuckDB."""
    is_plain = isinstance(divisor, exp.Literal) and divisor.name.isdigit()
    if left in INTEGERS and right in INTEGERS and is_plain:
        return max(left, right, key=INTEGERS.index)
    if left == right == pa.float64():
        return left
    raise unknown(f"% of {left} and {right}")
