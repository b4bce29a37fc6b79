"""The Spark job that writes a large batch to Kafka: its rows are read where engines left them, not by the driver.

Tasks read the files of the outbox, make messages of the rows, and send each writer its own, as blobs through Spark's
shuffle. Then a task for each writer opens it and writes what it got, unless the topic has it already: so the job may be
repeated as a whole when a worker is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from trimtab.errors import TrimtabError
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.sources.kafka_clients import Access
from trimtab.spark import lost_workers
from trimtab.spark.error_text import reason
from trimtab.spark.kafka_rows import Messages, in_lists, message_columns, shares
from trimtab.spark.kafka_writer import Identity, Writer
from trimtab.spark.outbox import Piece
from trimtab.spark.sinks import Delivery
from trimtab.worker.orders import packed
from trimtab.worker.pauses import avoid_pauses

Parcel = tuple[tuple[int, int], bytes]
"""Some messages of a writer: their place in the batch, and a table as `message_columns` gives it."""


@dataclass(frozen=True, slots=True)
class Cargo:
    """What tasks have to know to write a batch.

    next_batches   by writer: the first batch that the topic lacks, as the driver knows it
    """

    access: Access
    identity: Identity
    epoch: int
    batch: int
    key: str | None
    next_batches: tuple[int, ...]

    def parcels(self, pieces: Iterable[Piece]) -> Iterator[tuple[int, Parcel]]:
        """What goes to which writer."""
        avoid_pauses()
        for piece in pieces:
            with if_missing(Missing.PLAIN):
                for place, table in enumerate(piece.tables()):
                    for writer, share in shares(message_columns(table, self.key), self.identity.writers).items():
                        yield writer, ((piece.number, place), packed(share))

    def write(self, number: int, parcels: Iterable[Parcel]) -> None:
        """Write a writer's messages, in the order of the batch."""
        identity = replace(self.identity, writer=number)
        writer = Writer(self.access, identity, self.epoch, self.next_batches[number])
        if writer.next_batch is None or writer.next_batch <= self.batch:
            writer.write(self.batch, _InOrder([blob for _, blob in sorted(parcels, key=lambda parcel: parcel[0])]))


@dataclass(frozen=True, slots=True)
class _InOrder(Iterable[Messages]):
    """Messages that are taken out of their blobs one blob at a time, as often as they are gone through."""

    blobs: Sequence[bytes]

    def __iter__(self) -> Iterator[Messages]:
        return (in_lists(pa.ipc.open_stream(blob).read_all()) for blob in self.blobs)


def write_by_tasks(cargo: Cargo, delivery: Delivery) -> None:
    """Let tasks write a batch; raises the first error of a task, after all have ended."""
    context, pieces = delivery.spark.sparkContext, delivery.pieces()
    readers = min(len(pieces), context.defaultParallelism)
    read = context.parallelize(pieces, readers).mapPartitions(cargo.parcels)

    def write(number: int, parcels: Iterator[tuple[int, Parcel]]) -> Iterator[TrimtabError | str]:
        avoid_pauses()
        try:
            cargo.write(number, [parcel for _, parcel in parcels])
        except TrimtabError as error:
            yield error
        except Exception as error:  # Kafka's own can't be sent
            yield f"writer {number}: {reason(error)}"

    sent: Any = read.partitionBy(cargo.identity.writers, int)
    job = sent.mapPartitionsWithIndex(write, preservesPartitioning=True)
    for wrong in lost_workers.retried(job.collect):
        raise wrong if isinstance(wrong, TrimtabError) else RuntimeError(wrong)
