"""The parquet files of a Delta table that tasks write, and what the table's log is to say of each.

A file is a part of the table once a commit names it. Its name is new in each try, so what a killed try has left is
never taken for anything, and a full vacuum deletes it.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.spark.outbox import Piece
from trimtab.spark.partitioning import Parts, Values, folders, with_values
from trimtab.spark.task_files import in_parquet, left_name, within
from trimtab.state.checkpoint import own_name
from trimtab.state.files import Folder

COMPRESSION = "snappy"
LONGEST_TEXT = 32
"""In characters: of columns with longer texts the log says no range. Spark cuts such texts, by rules of its own."""
INDEXED = 32
"""For how many columns the log says what is in them, the first ones: that is Delta's own limit."""


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A file that a task has written.

    parts        the folders of the table where it is to be
    left         what it is called in the outbox, from where it has to be moved; "": it is in its place
    values       of the columns that the table has partitions by, as the log has them
    statistics   what the log says of the rows, as JSON
    """

    parts: Parts
    name: str
    left: str
    size_bytes: int
    values: tuple[str | None, ...]
    statistics: str

    @property
    def path(self) -> str:
        """The path below the table."""
        return "/".join((*self.parts, self.name))


@dataclass(frozen=True, slots=True)
class DeltaFiles:
    """What a task has to know to write files for a table.

    schema   the table's, to which the rows are cast
    by       the columns that the table has partitions by
    stem     how the files' names begin
    table    the table's folder if tasks can reach it; None: the files go to the outbox
    """

    schema: pa.Schema
    by: tuple[str, ...]
    stem: str
    batch: int
    epoch: int
    table: Folder | None

    def write(self, piece: Piece) -> list[DeltaFile]:
        """Write a file for each partition. With partitions a piece is in memory as a whole, as it was in its engine."""
        tables = (table.select(self.schema.names).cast(self.schema) for table in piece.tables())
        if not self.by:
            return [self._written(piece, (), in_parquet(tables, self.schema, COMPRESSION))]
        return [
            self._written(piece, values, in_parquet([rows], rows.schema, COMPRESSION))
            for values, rows in with_values(pa.concat_tables(tables), self.by)
        ]

    def _written(self, piece: Piece, values: Values, content: bytes) -> DeltaFile:
        parts = folders(self.by, values)
        name = f"{self.stem}-{piece.number:03d}-{own_name(self.epoch)}.parquet"
        left = "" if self.table else left_name(piece, self.batch, self.epoch)
        if self.table:
            within(self.table, parts).write(name, content)
        else:
            piece.outbox.write(left, content)
        texts = tuple(partition_value(value) for value in values)
        return DeltaFile(parts, name, left, len(content), texts, statistics(pq.read_metadata(pa.BufferReader(content))))


def partition_value(value: object) -> str | None:
    """A value of a column that a table has partitions by, as deltalake writes it into the log. Times are in UTC.

    >>> partition_value(Decimal("-0.010")), partition_value(datetime.datetime(2030, 1, 1, 12)), partition_value(True)
    ('-0.010', '2030-01-01 12:00:00.000000', 'true')
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        case Decimal():
            return f"{value:f}"  # never 0E-7
        case _:
            return str(value)


def statistics(metadata: pq.FileMetaData) -> str:
    """What a table's log says of the rows of a file, by which readers leave out files: their number, nulls and ranges.

    Ranges are those of whole numbers, dates, times (in milliseconds, rounded down, as the protocol has them) and short
    texts; other types have rules for what readers may conclude.
    """
    schema = metadata.schema.to_arrow_schema()
    types = {field.name: field.type for field in list(schema)[:INDEXED] if not pa.types.is_nested(field.type)}
    found: dict[str, list[pq.Statistics]] = {}
    for name, own in _statistics(metadata):
        if name in types and "." not in name:  # what is within a column has dots in its name, too
            found.setdefault(name, []).append(own)
    nulls = {
        name: sum(each.null_count for each in own)
        for name, own in found.items()
        if len(own) == metadata.num_row_groups and all(each.has_null_count for each in own)
    }
    ranges = {name: _range(types[name], found[name]) for name in nulls}
    told = {
        "numRecords": metadata.num_rows,
        "minValues": {name: _shown(ends[0]) for name, ends in ranges.items() if ends},
        "maxValues": {name: _shown(ends[1]) for name, ends in ranges.items() if ends},
        "nullCount": nulls,
    }
    return json.dumps(told)


def _statistics(metadata: pq.FileMetaData) -> Iterator[tuple[str, pq.Statistics]]:
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            if column.statistics is not None:
                yield column.path_in_schema, column.statistics


def _range(kind: pa.DataType, found: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """The least and the greatest value; None if that isn't known, or doesn't mean the same to everybody."""
    own = [each for each in found if each.num_values]  # the others have only nulls
    if not own or not all(each.has_min_max for each in own):
        return None
    try:
        least, most = min(each.min for each in own), max(each.max for each in own)
    except OverflowError:  # Python has no dates before the year 1, and none after 9999
        return None
    if pa.types.is_string(kind):
        return (least, most) if max(len(least), len(most)) <= LONGEST_TEXT else None
    is_exact = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return (least, most) if is_exact else None


def _shown(value: object) -> object:
    match value:
        case datetime.datetime(tzinfo=None):
            return value.isoformat(sep=" ", timespec="milliseconds")
        case datetime.datetime():
            return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
        case datetime.date():
            return value.isoformat()
        case _:
            return value
