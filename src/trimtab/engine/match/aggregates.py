"""The aggregates of a match's rows over Python values: folds over the rows of a match, in their order.

The order matters: floating sums run left to right and variances use Welford's update, because compiled kernels keep
exactly these as registers, and both must give the same bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from trimtab.engine.match import scalars

Row = tuple[object, ...]
"""The values of an aggregate's arguments at one row."""


def aggregate(function: str, rows: Sequence[Row], type_: pa.DataType) -> object:
    """An aggregate from `FOLDS` of the given type, over its arguments at each row.

    Over no rows counts are 0 and everything else is null.

    >>> aggregate("sum", [(1,), (None,), (2,)], pa.int64())
    3
    >>> aggregate("max_by", [("a", 1), ("b", 2), ("c", 2)], pa.string())
    'b'
    """
    fold = _fold(function, type_)
    if function in _DECIDED_BY:
        rows = rows[_DECIDED_BY[function]]
    return fold.result(functools.reduce(fold.add, rows, fold.start()), type_)


def prefixes(function: str, rows: Sequence[Row], owners: Sequence[int], type_: pa.DataType) -> list[object]:
    """For every row, the aggregate over its owner's rows up to it; an owner's rows are adjacent.

    >>> prefixes("stddev_pop", [(1,), (3,), (5,)], [0, 0, 1], pa.float64())
    [0.0, 1.0, 0.0]
    """
    fold, found = _fold(function, type_), []
    state, owner = None, None
    for row, own in zip(rows, owners, strict=True):
        if own != owner:
            state, owner = fold.start(), own
        state = fold.add(state, row)
        found.append(fold.result(state, type_))
    return found


_DECIDED_BY = MappingProxyType({"first_value": slice(1), "last_value": slice(-1, None)})
"""The one row that decides: a long match need not be read for it."""


class _Fold(NamedTuple):
    """An aggregate row by row: the state before the first row, the state after one more, and the aggregate by then."""

    start: Callable[[], Any]
    add: Callable[[Any, Row], Any]
    result: Callable[[Any, pa.DataType], object] = lambda state, _: state


def _fold(function: str, type_: pa.DataType) -> _Fold:
    is_float_sum = function == "sum" and pa.types.is_floating(type_)
    return _FLOAT_SUM if is_float_sum else FOLDS[function]


def _nothing() -> None:
    return None


def _pairwise(combine: Callable[[Any, Any], object]) -> _Fold:
    """Combine the first argument, where it is not null, with the result so far."""

    def add(found: object, row: Row) -> object:
        value = row[0]
        if value is None:
            return found
        return value if found is None else combine(found, value)

    return _Fold(_nothing, add)


def _add_float(total: float | None, row: Row) -> float | None:
    value: Any = row[0]
    if value is None:
        return total
    return float(value) if total is None else total + float(value)


# Neither uses the built-in sum: since Python 3.12 that one compensates for rounding.
_SUM = _pairwise(scalars.SCALARS["+"])
_FLOAT_SUM = _Fold(_nothing, _add_float)


def _add_to_mean(state: tuple[Any, int], row: Row) -> tuple[Any, int]:
    total, count = state
    return _SUM.add(total, row), count + (row[0] is not None)


def mean(total: Any, count: int, type_: pa.DataType) -> object:
    """A sum over a count: decimals rounded half up to the type's scale, intervals as intervals, all else a float."""
    if not count:
        return None
    if pa.types.is_decimal(type_):
        step = Decimal(1).scaleb(-type_.scale)
        return scalars.EXACT.divide(Decimal(total), count).quantize(step, context=scalars.EXACT)
    return total / count if pa.types.is_duration(type_) else float(total) / count


def _variance(fewer: int, finish: Callable[[float], float]) -> _Fold:
    """The variance over the number of values less `fewer`; null where that is not positive."""

    def add(state: tuple[int, float, float], row: Row) -> tuple[int, float, float]:
        value: Any = row[0]
        if value is None:
            return state
        count, middle, squares = state
        delta = float(value) - middle
        middle += delta / (count + 1)
        return count + 1, middle, squares + delta * (float(value) - middle)

    def result(state: tuple[int, float, float], _: pa.DataType) -> float | None:
        count, _, squares = state
        return finish(squares / (count - fewer)) if count > fewer else None

    return _Fold(lambda: (0, 0.0, 0.0), add, result)


def _first_argument(row: Row, _: pa.DataType) -> object:
    return row[0] if row else None


def _best_by(sign: int) -> _Fold:
    """The first argument at the first row where the second is best."""

    def add(best: Row, row: Row) -> Row:
        better = row[1] is not None and (not best or scalars.compare(row[1], best[1]) * sign > 0)
        return row if better else best

    return _Fold(tuple, add, _first_argument)


def _add_distinct(seen: set[Hashable], row: Row) -> set[Hashable]:
    if None not in row:
        seen.add(scalars.identity(row))
    return seen


def _append(values: list[object], row: Row) -> list[object]:
    values.append(row[0])
    return values


def _append_known(values: list[object], row: Row) -> list[object]:
    return values if row[0] is None else _append(values, row)


def _listed(values: list[object], _: pa.DataType) -> list[object] | None:
    return list(values) or None


_COUNT_DISTINCT = _Fold(set, _add_distinct, lambda seen, _: len(seen))
FOLDS: Mapping[str, _Fold] = MappingProxyType(
    {
        "count": _Fold(int, lambda count, row: count + (None not in row)),  # of rows without nulls
        "sum": _SUM,
        "avg": _Fold(lambda: (None, 0), _add_to_mean, lambda state, type_: mean(state[0], state[1], type_)),
        "min": _pairwise(lambda a, b: b if scalars.compare(b, a) < 0 else a),
        "max": _pairwise(lambda a, b: b if scalars.compare(b, a) > 0 else a),
        "stddev_samp": _variance(1, math.sqrt),
        "stddev_pop": _variance(0, math.sqrt),
        "var_samp": _variance(1, float),
        "var_pop": _variance(0, float),
        "bool_and": _pairwise(lambda a, b: a and b),
        "bool_or": _pairwise(lambda a, b: a or b),
        "any_value": _pairwise(lambda a, _: a),  # the first that is not null
        "first_value": _Fold(tuple, lambda first, row: first or row, _first_argument),  # the first, null or not
        "last_value": _Fold(tuple, lambda _, row: row, _first_argument),
        "max_by": _best_by(1),  # args (value, by); rows where `by` is null are ignored
        "min_by": _best_by(-1),
        "array_agg": _Fold(list, _append, _listed),  # keeps nulls
        "collect_list": _Fold(list, _append_known, _listed),  # array_agg without nulls
        "count_distinct": _COUNT_DISTINCT,
        "approx_count_distinct": _COUNT_DISTINCT,  # exact: a match's rows are at hand anyway
    }
)
