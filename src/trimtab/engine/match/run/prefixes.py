"""Running aggregates over Python values in one pass: the quick twin of folding every prefix with `aggregates`."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from trimtab.engine.match import scalars
from trimtab.engine.match.aggregates import Row, mean

Step = Callable[[Row], object]
"""Takes the next row in and gives the aggregate over all rows so far."""


def prefixes(function: str, rows: Sequence[Row], owners: Sequence[int], type_: pa.DataType) -> list[object]:
    """The aggregate over an owner's rows up to each row, for every row; an owner's rows stand together.

    >>> prefixes("stddev_pop", [(1,), (3,), (5,)], [0, 0, 1], pa.float64())
    [0.0, 1.0, 0.0]
    """
    make, found = _STEPS[function], []
    step, owner = make(type_), None
    for row, own in zip(rows, owners, strict=True):
        if own != owner:
            step, owner = make(type_), own
        found.append(step(row))
    return found


def _count(_: pa.DataType) -> Step:
    count = 0

    def step(row: Row) -> int:
        nonlocal count
        count += all(value is not None for value in row)
        return count

    return step


def _count_distinct(_: pa.DataType) -> Step:
    seen: set[Hashable] = set()

    def step(row: Row) -> int:
        if all(value is not None for value in row):
            seen.add(scalars.identity(row))
        return len(seen)

    return step


def _sum(type_: pa.DataType) -> Step:
    floating = pa.types.is_floating(type_)
    total: Any = None

    def step(row: Row) -> object:
        nonlocal total
        value: Any = row[0]
        if value is not None:
            value = float(value) if floating else value
            total = value if total is None else scalars.call("+", (total, value))
        return total

    return step


def _avg(type_: pa.DataType) -> Step:
    add, count = _sum(pa.null()), 0

    def step(row: Row) -> object:
        nonlocal count
        total = add(row)
        count += row[0] is not None
        return mean(total, count, type_) if count else None

    return step


def _variance(fewer: int, finish: Callable[[float], float]) -> Callable[[pa.DataType], Step]:
    def make(_: pa.DataType) -> Step:
        count, middle, squares = 0, 0.0, 0.0

        def step(row: Row) -> float | None:
            nonlocal count, middle, squares
            value: Any = row[0]
            if value is not None:
                count += 1
                delta = float(value) - middle
                middle += delta / count
                squares += delta * (float(value) - middle)
            return finish(squares / (count - fewer)) if count > fewer else None

        return step

    return make


def _combined(combine: Callable[[Any, Any], object]) -> Callable[[pa.DataType], Step]:
    """An aggregate of two known values at a time."""

    def make(_: pa.DataType) -> Step:
        found: object = None

        def step(row: Row) -> object:
            nonlocal found
            if row[0] is not None:
                found = row[0] if found is None else combine(found, row[0])
            return found

        return step

    return make


def _first(_: pa.DataType) -> Step:
    rows: list[Row] = []

    def step(row: Row) -> object:
        if not rows:
            rows.append(row)
        return rows[0][0]

    return step


def _by(sign: int) -> Callable[[pa.DataType], Step]:
    def make(_: pa.DataType) -> Step:
        best: Row | None = None

        def step(row: Row) -> object:
            nonlocal best
            if row[1] is not None and (best is None or scalars.compare(row[1], best[1]) * sign > 0):
                best = row
            return None if best is None else best[0]

        return step

    return make


def _list(known_only: bool) -> Callable[[pa.DataType], Step]:
    def make(_: pa.DataType) -> Step:
        values: list[object] = []

        def step(row: Row) -> list[object] | None:
            if row[0] is not None or not known_only:
                values.append(row[0])
            return list(values) or None

        return step

    return make


_STEPS: Mapping[str, Callable[[pa.DataType], Step]] = MappingProxyType(
    {
        "count": _count,
        "sum": _sum,
        "avg": _avg,
        "min": _combined(scalars.smallest),
        "max": _combined(scalars.largest),
        "stddev_samp": _variance(1, math.sqrt),
        "stddev_pop": _variance(0, math.sqrt),
        "var_samp": _variance(1, float),
        "var_pop": _variance(0, float),
        "bool_and": _combined(lambda a, b: a and b),
        "bool_or": _combined(lambda a, b: a or b),
        "any_value": _combined(lambda a, _: a),
        "first_value": _first,
        "last_value": lambda _: lambda row: row[0],
        "max_by": _by(1),
        "min_by": _by(-1),
        "array_agg": _list(known_only=False),
        "collect_list": _list(known_only=True),
        "count_distinct": _count_distinct,
        "approx_count_distinct": _count_distinct,
    }
)
