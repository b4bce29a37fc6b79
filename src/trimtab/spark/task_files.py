"""Parquet files that tasks write of a batch's rows, and where the sinks put them.

Tasks write what engines left as files in the outbox, so that it doesn't pass through the driver. What they write goes
to the outbox, too, which all of them share: a sink's folder may be on a disk that only the driver has.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from trimtab.errors import TrimtabError
from trimtab.spark import lost_workers
from trimtab.spark.outbox import Piece
from trimtab.spark.partitioning import Parts
from trimtab.spark.sinks import Delivery
from trimtab.state.checkpoint import own_name, safe_name
from trimtab.state.files import Folder
from trimtab.worker.pauses import avoid_pauses

Written = TypeVar("Written")


def in_tasks(spark: SparkSession, pieces: Sequence[Piece], write: Callable[[Piece], Written]) -> list[Written]:
    """What `write` answers for each piece, in their order: a task calls it. Raises the first TrimtabError of a task.

    It may be called again for a piece if a worker is lost: what the first call has written is then an orphan.
    """

    def written(own: Iterable[Piece]) -> Iterator[tuple[int, Written | TrimtabError]]:
        avoid_pauses()
        for piece in own:
            try:
                yield piece.number, write(piece)
            except TrimtabError as error:
                yield piece.number, error

    job: Any = spark.sparkContext.parallelize(pieces, len(pieces)).mapPartitions(written)
    found = []
    for _, answer in sorted(lost_workers.retried(job.collect), key=lambda each: each[0]):
        if isinstance(answer, TrimtabError):
            raise answer
        found.append(answer)
    return found


def stem(delivery: Delivery) -> str:
    """How the names of a batch's files begin: with the query, the stream's incarnation and the batch."""
    return f"{safe_name(delivery.name)}-{delivery.incarnation[:12]}-{delivery.batch:09d}"


def left_name(piece: Piece, batch: int, epoch: int) -> str:
    """A new name for a file of the outbox, from where it is deleted if nobody takes it."""
    return f"{batch:012d}-p{piece.number}-{own_name(epoch)}.parquet"


def in_parquet(tables: Iterable[pa.Table], schema: pa.Schema, compression: str) -> bytes:
    """A parquet file of these rows."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression=compression) as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue()


def within(folder: Folder, parts: Parts) -> Folder:
    """The folder of a partition."""
    for name in parts:
        folder = folder.child(name)
    return folder


def made(folder: Folder, parts: Parts) -> Folder:
    """The folder of a partition, which is there, and still is after a power cut."""
    for name in parts:
        above, folder = folder, folder.child(name)
        if folder.is_local and not folder.exists():
            folder.make()
            above.sync()
    return folder


def move(source: Folder, file: str, target: Folder, name: str) -> None:
    """Move a file from one folder to another."""
    if source.is_local:
        target.publish(source.path_of(file), name)
    else:
        copy(source, file, target, name)
        source.delete(file)


def copy(source: Folder, file: str, target: Folder, name: str) -> None:
    """Copy a file in parts: it may be larger than the driver's memory."""
    near = target if target.is_local else Folder(tempfile.gettempdir())
    with near.temporary(name) as local:
        source.fetch(file, local)
        target.publish(local, name)
