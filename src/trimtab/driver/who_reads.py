"""Who reads the rows of a batch from trimtab's own source: the driver or the engines, which saves a stage, or tasks.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from trimtab.driver.reading import Read

SMALL_ROWS = 20_000
"""Up to this many rows may be read by the driver: a second stage would take longer than they do."""
SMALL_BYTES = 8 << 20
"""And up to this many bytes: all of them pass through the memory of one process, twice."""
FEW_ROWS = 5_000
"""Up to this many rows the driver reads, whatever waits."""


ENTER_S, LEAVE_S = 0.06, 0.15
"""Engines begin to read all rows of a batch if one task needs at most the first time for that, and stop above the
second: a stage of tasks, and sending the rows, takes about a tenth of a second longer."""


class Reader(Enum):
    """Who reads the rows of a batch."""

    DRIVER = "the driver, and the job has one stage"
    TASKS = "tasks, side by side, in a stage of their own"
    ENGINES = "each engine reads all rows and takes its own: none is sent, and the job has one stage"


@dataclass(frozen=True, slots=True)
class Several:
    """What it would mean if every engine read all rows.

    is_possible   whether the source is near, so that reading takes nothing but time, and all engines run at a time
    a_row_s       how long a task reads and splits a row; None: nothing is known
    """

    is_possible: bool = False
    a_row_s: float | None = None

    def after(self, rows: int, reading_s: float) -> Several:
        """What is known when a batch was read, for so long in all of its tasks: that it took longer counts half."""
        if not rows:
            return self
        found = reading_s / rows
        known = found if self.a_row_s is None else self.a_row_s
        return Several(self.is_possible, min(found, (found + known) / 2))


def who_reads(read: Read, before: Reader, several: Several = Several()) -> Reader:  # noqa: B008 - it is frozen
    """Tasks read all of which nothing is known, such as the first batch of a start; the driver reads what is small.

    Engines read what they read in a moment, unless more rows wait than a batch takes: they are few tasks, and under a
    CPU hog the times of their batches vary more than those of batches that tasks read.

    before   who read the batch before

    The two ways differ in what a batch costs. If its rows alone decided between them, and one way led the limit of the
    intake above `SMALL_ROWS` and the other one below, it would swing. So tasks go on, while more rows wait than a batch
    takes, until it takes so few that their stage would be most of its time.

    >>> who_reads(Read((), rows=500, size_bytes=50_000), Reader.TASKS).name
    'DRIVER'
    >>> who_reads(Read((), rows=250_000), Reader.TASKS, Several(True, a_row_s=2e-7)).name
    'ENGINES'
    """
    if several.is_possible and several.a_row_s is not None and read.waiting <= read.rows:
        most_s = LEAVE_S if before is Reader.ENGINES else ENTER_S
        if read.rows * several.a_row_s <= most_s:
            return Reader.ENGINES
    if read.rows > SMALL_ROWS or read.size_bytes > SMALL_BYTES:
        return Reader.TASKS
    return before if read.waiting > read.rows > FEW_ROWS else Reader.DRIVER
