"""Functions of Spark that DuckDB lacks, or has with other results, over Arrow columns. DuckDB calls them by name.

- `spark_upper`, `spark_lower`: Unicode's full mapping, so ß becomes SS, and a Σ at the end of a word ς.
- `spark_round`: half up, as the number is written; 2.675, which is a bit less in binary, becomes 2.68.
- `spark_int`, `spark_long`: a double without its fraction, or the nearest number that there is; 0 for NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import single

if TYPE_CHECKING:
    import duckdb

Column: TypeAlias = pa.Array | pa.ChunkedArray
FloatArray = npt.NDArray[np.float64]
MOST_DIGITS = 9
"""How many digits after the point `spark_round` can keep."""
_SURE = 1e14
"""Below it, what a number times a power of ten is lies less than 0.02 beside the exact product."""


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions known to a database."""
    from duckdb.func import ARROW, SPECIAL

    functions: tuple[tuple[str, Callable[..., pa.Array], list[Any], str], ...] = (
        ("spark_upper", upper, ["VARCHAR"], "VARCHAR"),
        ("spark_lower", lower, ["VARCHAR"], "VARCHAR"),
        ("spark_round", rounded, ["DOUBLE", "INTEGER"], "DOUBLE"),
        ("spark_int", lambda column: whole(column, pa.int32()), ["DOUBLE"], "INTEGER"),
        ("spark_long", lambda column: whole(column, pa.int64()), ["DOUBLE"], "BIGINT"),
    )
    for name, function, takes, gives in functions:
        connection.create_function(name, function, takes, gives, type=ARROW, null_handling=SPECIAL)


def upper(texts: Column) -> pa.Array:
    """The texts in upper case.

    >>> upper(pa.array(["ab", "Straße", None])).to_pylist()
    ['AB', 'STRASSE', None]
    """
    return _mapped(single(texts), pc.ascii_upper, str.upper)


def lower(texts: Column) -> pa.Array:
    """The texts in lower case.

    >>> lower(pa.array(["AB", "ΟΔΟΣ"])).to_pylist()
    ['ab', 'οδος']
    """
    return _mapped(single(texts), pc.ascii_lower, str.lower)


def _mapped(texts: pa.Array, of_ascii: Callable[[pa.Array], pa.Array], of_any: Callable[[str], str]) -> pa.Array:
    is_other = pc.invert(pc.fill_null(pc.string_is_ascii(texts), True))
    found = of_ascii(texts)
    if not pc.any(is_other).as_py():
        return found
    # Each distinct text once: there are few of them, mostly.
    others = texts.filter(is_other).dictionary_encode()
    mapped = pa.array([of_any(text) for text in others.dictionary.to_pylist()], texts.type)
    return pc.replace_with_mask(found, is_other, mapped.take(others.indices))


def rounded(numbers: Column, digits: Column) -> pa.Array:
    """Numbers with so many digits after the point; there is no -0.0 among the results.

    >>> rounded(pa.array([2.675, -0.5, float("inf"), None]), pa.array([2, 2, 2, 2], pa.int32())).to_pylist()
    [2.68, -0.5, inf, None]
    """
    column = single(numbers)
    if not len(column):
        return column
    places = int(single(digits)[0].as_py())
    found = pa.array(_rounded(np.asarray(column.fill_null(0.0)), places))
    return pc.if_else(column.is_valid(), found, pa.scalar(None, pa.float64()))


def _rounded(numbers: FloatArray, places: int) -> FloatArray:
    scale = 10.0**places
    size = np.abs(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        is_sure = size * scale < _SURE
        below = np.floor(np.where(is_sure, size * scale, 0.0))
        # Both are whole numbers of less than 53 bits, so the double nearest to their quotient is the one that is
        # written as the middle: a number from there on is rounded up.
        is_up = size >= (2 * below + 1) / (2 * scale)
        found: FloatArray = np.copysign((below + is_up) / scale, numbers) + 0.0
    for at in np.flatnonzero(~is_sure):  # very large, infinite, or NaN
        found[at] = _rounded_as_written(float(numbers[at]), places)
    return found


def _rounded_as_written(number: float, places: int) -> float:
    if not np.isfinite(number) or abs(number) >= 2.0**53:
        return number
    return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def whole(numbers: Column, kind: pa.DataType) -> pa.Array:
    """Numbers without their fraction; those that don't fit are the nearest that do, and 0 for NaN.

    >>> whole(pa.array([-1.9, 1e30, float("nan"), None]), pa.int32()).to_pylist()
    [-1, 2147483647, 0, None]
    """
    column = single(numbers)
    found, limits = np.asarray(column.fill_null(0.0)), np.iinfo(kind.to_pandas_dtype())
    with np.errstate(invalid="ignore"):
        is_high, is_low = found >= float(limits.max), found <= float(limits.min)
        is_usual = ~(is_high | is_low | np.isnan(found))
        cut = np.where(is_usual, found, 0.0).astype(limits.dtype)
    cut[is_high], cut[is_low] = limits.max, limits.min
    return pc.if_else(column.is_valid(), pa.array(cut, kind), pa.scalar(None, kind))
