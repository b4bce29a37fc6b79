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
_SIGNED_DIGITS = 34
"""Spark rounds decimals to this many digits where it changes their sign."""
SMALL = pa.uint32()
"""Stands for the type of lengths and years, an int in Spark and a bigint in DuckDB: they can be compared, no more."""
PART = pa.uint16()
"""Likewise of hours and days, which are below 1,000."""
PARTS = pa.uint64()
"""Stands for the type of what is computed of parts of a time with plain numbers: all of it fits an int."""
_MOST_PART = 100_000
_WHOLE = (*INTEGERS, SMALL, PART, PARTS)
_INT64_DIGITS = 18


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
    if left in _WHOLE and right in _WHOLE:
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


def keeps_digits(kind: pa.DataType) -> bool:
    """Whether the type is that of decimals, all of which keep their digits in Spark when their sign changes."""
    return bool(pa.types.is_decimal(kind) and kind.precision <= _SIGNED_DIGITS)


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
    if len(found) == 1 and not found & {SMALL, PART, PARTS}:
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
    if any(map(pa.types.is_decimal, kinds)) and (found := _decimal(name, left, right)) is not None:
        return found
    raise unknown(f"{name} of {left} and {right}")


def computed_of_parts(name: str | None, sides: Sequence[exp.Expr], kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type of a sum, a difference or a product of parts of a time and plain numbers; None: it is another one."""
    numbers = [side for side in sides if isinstance(side, exp.Literal)]
    if name is None or any(not each.name.isdigit() or int(each.name) > _MOST_PART for each in numbers):
        return None
    others = [kind for side, kind in zip(sides, kinds, strict=True) if not isinstance(side, exp.Literal)]
    known = (PART,) if name == "*" else (PART, PARTS)
    return PARTS if others and all(kind in known for kind in others) else None


def times_number(name: str | None, sides: Sequence[exp.Expr], kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type of a decimal times an integer that is written out, where 18 digits are enough; None: it is another one.

    DuckDB has 10 digits for such an integer, and no more than 18 for the product.
    """
    for number, kind in ((sides[0], kinds[1]), (sides[1], kinds[0])):
        is_number = name == "*" and isinstance(number, exp.Literal) and number.name.isdigit()
        if is_number and pa.types.is_decimal(kind) and kind.precision + len(number.name) <= _INT64_DIGITS:
            return pa.decimal128(min(kind.precision + 10, _INT64_DIGITS), kind.scale)
    return None


def _decimal(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The decimals that DuckDB computes, if all results fit them; None: they may not, or there are none."""
    (before, after), (before_too, after_too) = _size(left), _size(right)
    if before < 0 or before_too < 0:
        return None
    digits = (before + after, before_too + after_too)
    scale = after + after_too if name == "*" else max(after, after_too)
    wide = sum(digits) if name == "*" else max(before, before_too) + 1 + scale
    if wide >= MAX_PRECISION or (wide > _INT64_DIGITS and max(digits) <= _INT64_DIGITS):
        return None  # DuckDB doesn't go on to 128 bits by itself
    return pa.decimal128(wide, scale)


def divided(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of a quotient."""
    if all(kind in (*INTEGERS, PART, PARTS, pa.float64()) for kind in (left, right)):
        return pa.float64()
    raise unknown(f"/ of {left} and {right}")


def remaining(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of a remainder."""
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if left == right == pa.float64():
        return left
    raise unknown(f"% of {left} and {right}")
