"""The aggregates of patterns over a whole list of rows: the plain twin of `trimtab.engine.match.aggregates`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from trimtab.engine.match import scalars

Row = tuple[object, ...]
"""The values of an aggregate's arguments at one row."""


def aggregate(function: str, rows: Sequence[Row], type_: pa.DataType) -> object:
    """An aggregate of the given type, over its arguments at each row."""
    return _FOLDS[function](rows, type_)


def _known(rows: Sequence[Row]) -> list[Any]:
    """The first argument where it is not null."""
    return [row[0] for row in rows if row[0] is not None]


def _complete(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if all(value is not None for value in row)]


def _count(rows: Sequence[Row], _: pa.DataType) -> int:
    return len(_complete(rows))


def _count_distinct(rows: Sequence[Row], _: pa.DataType) -> int:
    return len({scalars.identity(row) for row in _complete(rows)})


def _sum(rows: Sequence[Row], type_: pa.DataType) -> object:
    values = _known(rows)
    if pa.types.is_floating(type_):
        values = [float(value) for value in values]
    if not values:
        return None
    # Not the built-in sum: since Python 3.12 that one compensates for rounding.
    total = values[0]
    for value in values[1:]:
        total = scalars.SCALARS["+"](total, value)
    return total


def _avg(rows: Sequence[Row], type_: pa.DataType) -> object:
    values = _known(rows)
    if not values:
        return None
    total: Any = _sum(rows, pa.null())
    if pa.types.is_decimal(type_):
        step = Decimal(1).scaleb(-type_.scale)
        return scalars.EXACT.divide(Decimal(total), len(values)).quantize(step, context=scalars.EXACT)
    return total / len(values) if pa.types.is_duration(type_) else float(total) / len(values)


def _variance(rows: Sequence[Row], fewer: int) -> float | None:
    """The variance over the number of values less `fewer`; null where that is not positive."""
    count, mean, squares = 0, 0.0, 0.0
    for value in _known(rows):
        count += 1
        delta = float(value) - mean
        mean += delta / count
        squares += delta * (float(value) - mean)
    return squares / (count - fewer) if count > fewer else None


def _stddev(rows: Sequence[Row], fewer: int) -> float | None:
    variance = _variance(rows, fewer)
    return None if variance is None else math.sqrt(variance)


def _bool_and(rows: Sequence[Row], _: pa.DataType) -> object:
    values = _known(rows)
    return all(values) if values else None


def _bool_or(rows: Sequence[Row], _: pa.DataType) -> object:
    values = _known(rows)
    return any(values) if values else None


def _by(rows: Sequence[Row], best: Callable[..., object]) -> object:
    """The first argument at the first row where the second is `best`."""
    goal = best(*(by for _, by in rows))
    return next((value for value, by in rows if by is not None and scalars.compare(by, goal) == 0), None)


_FOLDS: Mapping[str, Callable[[Sequence[Row], pa.DataType], object]] = MappingProxyType(
    {
        "count": _count,
        "sum": _sum,
        "avg": _avg,
        "min": lambda rows, _: scalars.SCALARS["least"](*_known(rows)),
        "max": lambda rows, _: scalars.SCALARS["greatest"](*_known(rows)),
        "stddev_samp": lambda rows, _: _stddev(rows, 1),
        "stddev_pop": lambda rows, _: _stddev(rows, 0),
        "var_samp": lambda rows, _: _variance(rows, 1),
        "var_pop": lambda rows, _: _variance(rows, 0),
        "bool_and": _bool_and,
        "bool_or": _bool_or,
        "any_value": lambda rows, _: next(iter(_known(rows)), None),
        "first_value": lambda rows, _: rows[0][0] if rows else None,
        "last_value": lambda rows, _: rows[-1][0] if rows else None,
        "max_by": lambda rows, _: _by(rows, scalars.SCALARS["greatest"]),
        "min_by": lambda rows, _: _by(rows, scalars.SCALARS["least"]),
        "array_agg": lambda rows, _: [row[0] for row in rows] or None,
        "collect_list": lambda rows, _: _known(rows) or None,
        "count_distinct": _count_distinct,
        "approx_count_distinct": _count_distinct,
    }
)
