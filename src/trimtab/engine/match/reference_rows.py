"""The rows of the reference engine, slow and obvious: partitions, each in the order that the query asks for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key

import pyarrow as pa

from trimtab.engine.match import scalars
from trimtab.engine.match.ir.query import MatchQuery, OrderKey


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of one partition in their order."""

    numbers: list[int]  # of the rows in the input
    columns: dict[str, list[object]]
    times_us: list[int | None]  # empty if the query has no time column


def partitions(query: MatchQuery, rows: pa.Table) -> Iterator[Partition]:
    """The partitions of an input, in order of first appearance."""
    columns = {name: rows[name].to_pylist() for name in rows.column_names}
    times_us: list[int | None] = []
    if query.time_column is not None:
        times = rows[query.time_column]
        zone = times.type.tz if pa.types.is_timestamp(times.type) else None
        # Unsafe only in that nanoseconds are cut off.
        microseconds = times.cast(pa.timestamp("us", zone), safe=False)
        times_us = microseconds.cast(pa.int64()).to_pylist()
    groups: dict[Hashable, list[int]] = {}
    for number in range(rows.num_rows):
        key = scalars.identity([columns[name][number] for name in query.partition])
        groups.setdefault(key, []).append(number)
    for numbers in groups.values():
        # The sort is stable: by the last key first, then the earlier keys overrule it.
        for order in reversed(query.order):
            numbers = _sorted(numbers, order, columns[order.column])
        yield Partition(
            numbers,
            {name: [column[number] for number in numbers] for name, column in columns.items()},
            [times_us[number] for number in numbers] if times_us else [],
        )


def _sorted(numbers: list[int], order: OrderKey, column: list[object]) -> list[int]:
    nulls = [number for number in numbers if column[number] is None]
    others = [number for number in numbers if column[number] is not None]
    by_value = cmp_to_key(scalars.compare)
    others.sort(key=lambda number: by_value(column[number]), reverse=order.descending)
    return nulls + others if order.nulls_first else others + nulls
