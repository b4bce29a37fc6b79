"""The parquet sink: a folder of parquet files that has each batch exactly once, and can be read at any time.

Files appear by renaming, so they are always complete. Their names hold the query, the stream's incarnation and the
batch: the files of a batch that is repeated after a crash replace those of its first try.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.errors import JobError, TrimtabError
from trimtab.spark import lost_workers
from trimtab.spark.outbox import Piece
from trimtab.spark.partitioning import Parts, partitioned, raise_if_unsuitable
from trimtab.spark.sink_formats import partition_columns, place_of
from trimtab.spark.sinks import Delivery, Sink
from trimtab.state.checkpoint import own_name, safe_name
from trimtab.state.files import Folder
from trimtab.worker.pauses import avoid_pauses

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

    def take(self, delivery: Delivery) -> None:
        """Write the batch's files."""
        folder, stem = Folder(self.path), _stem(delivery)
        written = self._write_parts(delivery) if self.partition_by else self._write(delivery)
        if delivery.may_repeat:  # the try before a crash may have left more files than this one
            for parts, name in _files_below(folder, len(self.partition_by)):
                if name.startswith(stem) and (parts, name) not in written:
                    _within(folder, parts).delete(name)

    def _write(self, delivery: Delivery) -> set[tuple[Parts, str]]:
        """Write the rows in memory to a file, and take those of the engines as they are."""
        folder, names = Folder(self.path), list[str]()
        if delivery.table:
            names.append(_name(delivery, 0))
            folder.write(names[-1], _in_parquet(delivery.table, self.compression))
        for number, file in enumerate(delivery.files, 1):
            names.append(_name(delivery, number))
            if delivery.is_last and delivery.outbox.is_local:
                folder.publish(delivery.outbox.path_of(file), names[-1])
            else:
                _copy(delivery.outbox, file, folder, names[-1])
        return {((), name) for name in names}

    def _write_parts(self, delivery: Delivery) -> set[tuple[Parts, str]]:
        """Write a file for each partition: of the rows in memory here, and of each engine's file in a task."""
        folder, written = Folder(self.path), set[tuple[Parts, str]]()
        if delivery.table:
            for parts, table in partitioned(delivery.table, self.partition_by):
                written.add((parts, _name(delivery, 0)))
                _made(folder, parts).write(_name(delivery, 0), _in_parquet(table, self.compression))
        if delivery.files:
            for number, left in enumerate(self._left_by_tasks(delivery), 1):
                for parts, file in left:
                    written.add((parts, _name(delivery, number)))
                    _move(delivery.outbox, file, _made(folder, parts), _name(delivery, number))
        return written

    def _left_by_tasks(self, delivery: Delivery) -> list[list[_Left]]:
        """Have tasks write what is in the engines' files by partition, to the outbox: it is what all of them share."""
        pieces = [piece for piece in delivery.pieces() if piece.file]
        by, compression, batch, epoch = tuple(self.partition_by), self.compression, delivery.batch, delivery.epoch

        def write(own: Iterable[Piece]) -> Iterator[tuple[int, list[_Left] | TrimtabError]]:
            avoid_pauses()
            for piece in own:
                try:
                    yield piece.number, _leave_parts(piece, by, compression, batch, epoch)
                except TrimtabError as error:
                    yield piece.number, error

        job: Any = delivery.spark.sparkContext.parallelize(pieces, len(pieces)).mapPartitions(write)
        found = []
        for _, left in sorted(lost_workers.retried(job.collect), key=lambda each: each[0]):
            if isinstance(left, TrimtabError):
                raise left
            found.append(left)
        return found


def parquet_sink(options: Mapping[str, Any]) -> ParquetSink:
    """The sink for the options of `.write("parquet", ...)`. Raises JobError `job.sink` without a path."""
    if not options.get("path"):
        raise JobError("job.sink", "a parquet sink needs a path", 'write .write("parquet", path="out/")')
    return ParquetSink(str(options["path"]), options.get("compression", "snappy"), partition_columns(options))


def _stem(delivery: Delivery) -> str:
    return f"{safe_name(delivery.name)}-{delivery.incarnation[:12]}-{delivery.batch:09d}"


def _name(delivery: Delivery, number: int) -> str:
    return f"{_stem(delivery)}-{number:03d}.parquet"


def _in_parquet(table: pa.Table, compression: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=compression)
    return sink.getvalue()


def _leave_parts(piece: Piece, by: Sequence[str], compression: str, batch: int, epoch: int) -> list[_Left]:
    """Write a piece's partitions to files of the outbox. It is in memory as a whole, as it was in its engine's."""
    found = []
    for parts, table in partitioned(pa.concat_tables(piece.tables()), by):
        file = f"{batch:012d}-p{piece.number}-{own_name(epoch)}.parquet"
        piece.outbox.write(file, _in_parquet(table, compression))
        found.append((parts, file))
    return found


def _within(folder: Folder, parts: Parts) -> Folder:
    for name in parts:
        folder = folder.child(name)
    return folder


def _made(folder: Folder, parts: Parts) -> Folder:
    """The folder of a partition, which is there, and still is after a power cut."""
    for name in parts:
        above, folder = folder, folder.child(name)
        if folder.is_local and not folder.exists():
            folder.make()
            above.sync()
    return folder


def _files_below(folder: Folder, levels: int) -> Iterator[tuple[Parts, str]]:
    """The files of the folders that are so many levels below, and the names of the folders that lead there."""
    for name in folder.names():
        if levels == 0:
            yield (), name
        elif "=" in name:
            for parts, file in _files_below(folder.child(name), levels - 1):
                yield (name, *parts), file


def _move(source: Folder, file: str, target: Folder, name: str) -> None:
    if source.is_local:
        target.publish(source.path_of(file), name)
    else:
        _copy(source, file, target, name)
        source.delete(file)


def _copy(source: Folder, file: str, target: Folder, name: str) -> None:
    """Copy a file in parts: it may be larger than the driver's memory."""
    near = target if target.is_local else Folder(tempfile.gettempdir())
    with near.temporary(name) as local:
        source.fetch(file, local)
        target.publish(local, name)
