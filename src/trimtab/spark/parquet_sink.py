"""The parquet sink: a folder of parquet files that has each batch exactly once, and can be read at any time.

Files appear by renaming, so they are always complete. Their names hold the query, the stream's incarnation and the
batch: the files of a batch that is repeated after a crash replace those of its first try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trimtab.errors import JobError
from trimtab.spark.outbox import Piece
from trimtab.spark.partitioning import Parts, partitioned, raise_if_unsuitable
from trimtab.spark.sink_formats import partition_columns, place_of
from trimtab.spark.sinks import Delivery, Sink
from trimtab.spark.task_files import copy, in_parquet, in_tasks, left_name, made, move, stem, within
from trimtab.state.files import Folder
from trimtab.worker.orders import Output

_Left = tuple[Parts, str]
"""Names of folders, one in the other, and the name of a file in the outbox that is to go there."""


@dataclass(slots=True)
class ParquetSink(Sink):
    """A folder of parquet files.

    path           on a disk or in an object store
    compression    as pyarrow knows it
    partition_by   columns whose values folders are named by, instead of being in the files: `day=2030-01-01/`
    """

    path: str
    compression: str = "snappy"
    partition_by: Sequence[str] = ()

    @property
    def shown(self) -> str:
        """The format and the folder."""
        return f"parquet {Folder(self.path).shown}"

    def place(self, name: str) -> str:
        """The folder."""
        return place_of("parquet", {"path": self.path}, name)

    def prepare(self, name: str, columns: Sequence[str]) -> None:
        """Make the folder. Raises JobError `job.sink` for partitions by no column, StateError `state.access`."""
        raise_if_unsuitable(self.partition_by, columns, f"{name}: a parquet sink")
        Folder(self.path).make()
        Folder(self.path).check_writable()

    def may_run_apart(self, outputs: Sequence[Output]) -> bool:
        """Partitions may be written by Spark's tasks."""
        del outputs
        return not self.partition_by

    @property
    def is_on_disk(self) -> bool:
        """Unless the folder is in an object store."""
        return Folder(self.path).is_local

    def take(self, delivery: Delivery) -> None:
        """Write the batch's files."""
        folder, beginning = Folder(self.path), stem(delivery)
        written = self._write_parts(delivery) if self.partition_by else self._write(delivery)
        if delivery.may_repeat:  # the try before a crash may have left more files than this one
            for parts, name in _files_below(folder, len(self.partition_by)):
                if name.startswith(beginning) and (parts, name) not in written:
                    within(folder, parts).delete(name)

    def _write(self, delivery: Delivery) -> set[tuple[Parts, str]]:
        """Write the rows in memory to a file, and take those of the engines as they are."""
        folder, names = Folder(self.path), list[str]()
        if delivery.table:
            names.append(_name(delivery, 0))
            folder.write(names[-1], in_parquet([delivery.table], delivery.table.schema, self.compression))
        for number, file in enumerate(delivery.files, 1):
            names.append(_name(delivery, number))
            if delivery.is_last and delivery.outbox.is_local:
                folder.publish(delivery.outbox.path_of(file), names[-1])
            else:
                copy(delivery.outbox, file, folder, names[-1])
        return {((), name) for name in names}

    def _write_parts(self, delivery: Delivery) -> set[tuple[Parts, str]]:
        """Write a file for each partition: of the rows in memory here, and of each engine's file in a task."""
        folder, written = Folder(self.path), set[tuple[Parts, str]]()
        if delivery.table:
            for parts, table in partitioned(delivery.table, self.partition_by):
                written.add((parts, _name(delivery, 0)))
                made(folder, parts).write(_name(delivery, 0), in_parquet([table], table.schema, self.compression))
        if delivery.files:
            for number, left in enumerate(self._left_by_tasks(delivery), 1):
                for parts, file in left:
                    written.add((parts, _name(delivery, number)))
                    move(delivery.outbox, file, made(folder, parts), _name(delivery, number))
        return written

    def _left_by_tasks(self, delivery: Delivery) -> list[list[_Left]]:
        """Have tasks write what is in the engines' files by partition, to the outbox: it is what all of them share."""
        by, compression, batch, epoch = tuple(self.partition_by), self.compression, delivery.batch, delivery.epoch

        def leave(piece: Piece) -> list[_Left]:
            return _leave_parts(piece, by, compression, batch, epoch)

        return in_tasks(delivery.spark, [piece for piece in delivery.pieces() if piece.file], leave)


def parquet_sink(options: Mapping[str, Any]) -> ParquetSink:
    """The sink for the options of `.write("parquet", ...)`. Raises JobError `job.sink` without a path."""
    if not options.get("path"):
        raise JobError("job.sink", "a parquet sink needs a path", 'write .write("parquet", path="out/")')
    return ParquetSink(str(options["path"]), options.get("compression", "snappy"), partition_columns(options))


def _name(delivery: Delivery, number: int) -> str:
    return f"{stem(delivery)}-{number:03d}.parquet"


def _leave_parts(piece: Piece, by: Sequence[str], compression: str, batch: int, epoch: int) -> list[_Left]:
    """Write a piece's partitions to files of the outbox. It is in memory as a whole, as it was in its engine's."""
    found = []
    for parts, table in partitioned(pa.concat_tables(piece.tables()), by):
        file = left_name(piece, batch, epoch)
        piece.outbox.write(file, in_parquet([table], table.schema, compression))
        found.append((parts, file))
    return found


def _files_below(folder: Folder, levels: int) -> Iterator[tuple[Parts, str]]:
    """The files of the folders that are so many levels below, and the names of the folders that lead there."""
    for name in folder.names():
        if levels == 0:
            yield (), name
        elif "=" in name:
            for parts, file in _files_below(folder.child(name), levels - 1):
                yield (name, *parts), file
