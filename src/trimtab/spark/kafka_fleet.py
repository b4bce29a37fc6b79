"""All writers of a Kafka sink, as the driver knows them: opened together, and used for small batches.

A large batch is written by tasks (`kafka_jobs.py`), which open the writers themselves and so shut the driver's out. The
driver then forgets its own, and opens each again when it has rows for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from trimtab.sources.kafka_clients import Access
from trimtab.spark.kafka_rows import Messages
from trimtab.spark.kafka_writer import Identity, Writer

Answer = TypeVar("Answer")


class Fleet:
    """The writers, by number. `next_batches`: the first batch that the topic lacks of each; None: not known."""

    def __init__(self, access: Access, identity: Identity, epoch: int) -> None:
        self.identity, self._access, self._epoch = identity, access, epoch
        self._writers: list[Writer | None] = [None] * identity.writers
        self.next_batches: list[int | None] = [None] * identity.writers
        self._written_at_s = [time.monotonic()] * identity.writers
        _side_by_side(self._open, range(identity.writers))

    def begin(self, batch: int) -> None:
        """Write a number for the writers that have none, and this job's epoch for all: earlier jobs are then out."""

        def claim(number: int) -> None:
            writer = self._open(number)
            if writer.next_batch is None:
                writer.write(batch - 1, ())
            else:
                writer.claim()
            self._took(number, writer)

        _side_by_side(claim, range(len(self._writers)))

    def lacking(self, batch: int) -> list[int]:
        """The writers of which the topic lacks this batch."""
        return [number for number, found in enumerate(self.next_batches) if found is None or found <= batch]

    def idle(self, seconds: float) -> list[int]:
        """The writers whose numbers were written longer ago than this."""
        return [number for number, at_s in enumerate(self._written_at_s) if time.monotonic() - at_s >= seconds]

    def write(self, batch: int, parts: Mapping[int, Sequence[Messages]]) -> None:
        """Let each of these writers write its messages of a batch; an error is raised when all have ended."""

        def write(number: int) -> None:
            writer = self._open(number)
            writer.write(batch, parts[number])
            self._took(number, writer)

        _side_by_side(write, sorted(parts))

    def was_written(self, batch: int) -> None:
        """Note that tasks have written a batch, and shut the driver's writers out on the way."""
        count = len(self._writers)
        self._writers, self.next_batches = [None] * count, [batch + 1] * count
        self._written_at_s = [time.monotonic()] * count

    def _open(self, number: int) -> Writer:
        writer = self._writers[number]
        if writer is None:
            identity = replace(self.identity, writer=number)
            writer = Writer(self._access, identity, self._epoch, self.next_batches[number])
            self._writers[number], self.next_batches[number] = writer, writer.next_batch
        return writer

    def _took(self, number: int, writer: Writer) -> None:
        self.next_batches[number], self._written_at_s[number] = writer.next_batch, time.monotonic()


def _side_by_side(work: Callable[[int], object], numbers: Iterable[int]) -> None:
    """Do it for all numbers at once: most of the time is waiting for Kafka."""
    wanted = list(numbers)
    if len(wanted) == 1:
        work(wanted[0])
    elif wanted:
        with ThreadPoolExecutor(len(wanted), thread_name_prefix="trimtab-kafka") as threads:
            list(threads.map(work, wanted))
