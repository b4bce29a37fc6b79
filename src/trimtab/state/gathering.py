"""Take rows from several tables into one: the inner loop of looking up keys and of merging runs.

Columns of fixed width go through NumPy, whose call costs a microsecond where Arrow's `take` costs about fifteen: a
lookup touches a few hundred rows in each of a hundred runs, so the cost of the calls decides. Everything else (strings,
lists, structs) goes through Arrow.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_WIDTHS: dict[int, np.dtype[Any]] = {width: np.dtype(f"u{width}") for width in (1, 2, 4, 8)}


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """A column of fixed width as memory: `values` from its first row on; bitmaps begin at bit `offset`."""

    values: npt.NDArray[Any] | None  # None: booleans, which are `bits`
    bits: Bytes | None
    validity: Bytes | None  # None: no nulls
    offset: int


class Source:
    """A table, unpacked so that rows can be taken from it many times. Its columns have one chunk each at most."""

    __slots__ = ("columns", "schema", "table")

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.schema = table.schema
        self.columns: list[_Fixed | pa.Array] = [_unpacked(column) for column in table.columns]


Piece = tuple[Source, Int64Array | range]
"""A table, and the rows to take from it, in the order in which they are wanted. A range is one of step 1."""


def rows_of(pieces: Sequence[Piece], order: Int64Array | None) -> pa.Table:
    """The rows of all pieces one after another, or in `order`: positions in that sequence, each at most once.

    All columns of the result have one chunk. If tables have different columns, the result has all of them: a column
    that a table lacks is null in its rows.
    """
    assert pieces, "there is no schema without a table"
    pieces = [piece for piece in pieces if len(piece[1])] or pieces[:1]
    schema = pieces[0][0].schema
    if len(pieces) == 1 and order is None and isinstance(pieces[0][1], range):
        return _taken(pieces[0][0].table, pieces[0][1])
    if len(pieces) > 1 and not all(source.schema.equals(schema) for source, _ in pieces):
        return _with_other_columns(pieces, order)
    places = list(itertools.pairwise(itertools.accumulate((len(rows) for _, rows in pieces), initial=0)))
    copying = _Copying(pieces, [slice(*place) for place in places], order, places[-1][1])
    arrays = [_column(copying, number, field.type) for number, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema) if arrays else pieces[0][0].table


def spans(starts: Int64Array, ends: Int64Array) -> Int64Array:
    """All numbers from each start up to, but not including, its end, one range after another.

    >>> spans(np.array([3, 7, 0]), np.array([5, 7, 2])).tolist()
    [3, 4, 0, 1]
    """
    counts = ends - starts
    if counts.size and counts.min() == 1 == counts.max():
        return starts
    totals = np.cumsum(counts)
    total = int(totals[-1]) if totals.size else 0
    numbers = np.arange(total, dtype=np.int64)
    numbers += np.repeat(starts - (totals - counts), counts)
    return numbers


def offsets(counts: Int64Array) -> Int64Array:
    """Where each of some ranges with these counts begins, one after another, and where the last one ends.

    >>> offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def one_chunk(table: pa.Table) -> pa.Table:
    """The table with at most one chunk a column."""
    return table.combine_chunks() if any(column.num_chunks > 1 for column in table.columns) else table


class _Copying(NamedTuple):
    """Which rows go where: those of a piece to its place, and then all of them in order."""

    pieces: Sequence[Piece]
    places: Sequence[slice]
    order: Int64Array | None
    total: int


def _unpacked(column: pa.ChunkedArray) -> _Fixed | pa.Array:
    array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    kind = array.type
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    if not fixed or not len(array) or not kind.bit_width:
        return array
    validity, data = array.buffers()
    bitmap = np.frombuffer(validity, np.uint8) if validity is not None and array.null_count else None
    if kind.bit_width == 1:
        return _Fixed(None, np.frombuffer(data, np.uint8), bitmap, array.offset)
    width = kind.bit_width // 8
    dtype: np.dtype[Any] = _WIDTHS.get(width) or np.dtype(f"V{width}")
    values = np.frombuffer(data, dtype, array.offset + len(array))[array.offset :]
    return _Fixed(values, None, bitmap, array.offset)


def _column(copying: _Copying, number: int, kind: pa.DataType) -> pa.Array:
    columns: list[Any] = [source.columns[number] for source, _ in copying.pieces]
    if not all(isinstance(column, _Fixed) for column in columns):
        return _by_arrow(columns, copying)
    has_nulls = any(column.validity is not None for column in columns)
    validity = _bitmap(copying, columns, [column.validity for column in columns]) if has_nulls else None
    if columns[0].values is None:
        data = _bitmap(copying, columns, [column.bits for column in columns])
    else:
        values = np.empty(copying.total, columns[0].values.dtype)
        for column, (_, rows), place in zip(columns, copying.pieces, copying.places, strict=True):
            if isinstance(rows, range):
                values[place] = column.values[rows.start : rows.stop]
            else:  # "clip": rows are known to exist, and any other mode copies first
                np.take(column.values, rows, out=values[place], mode="clip")
        data = pa.py_buffer(values if copying.order is None else values[copying.order])
    return pa.Array.from_buffers(kind, copying.total, [validity, data])


def _bitmap(copying: _Copying, columns: Sequence[_Fixed], bitmaps: Sequence[Bytes | None]) -> pa.Buffer:
    """The bits of the rows, packed again; where there is no bitmap they are all set."""
    chosen = np.ones(copying.total, np.bool_)
    for bitmap, column, (_, rows), place in zip(bitmaps, columns, copying.pieces, copying.places, strict=True):
        if bitmap is not None:
            numbers = np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
            bits = numbers + column.offset
            chosen[place] = (bitmap[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1
    return pa.py_buffer(np.packbits(chosen if copying.order is None else chosen[copying.order], bitorder="little"))


def _by_arrow(columns: Sequence[pa.Array], copying: _Copying) -> pa.Array:
    chunks = [_taken(column, rows) for column, (_, rows) in zip(columns, copying.pieces, strict=True)]
    array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return array if copying.order is None else array.take(pa.array(copying.order))


def _with_other_columns(pieces: Sequence[Piece], order: Int64Array | None) -> pa.Table:
    table = pa.concat_tables([_taken(source.table, rows) for source, rows in pieces], promote_options="default")
    return one_chunk(table if order is None else table.combine_chunks().take(pa.array(order)))


def _taken(values: Any, rows: Int64Array | range) -> Any:
    """Those rows of an array or a table."""
    return values.slice(rows.start, len(rows)) if isinstance(rows, range) else values.take(pa.array(rows))
