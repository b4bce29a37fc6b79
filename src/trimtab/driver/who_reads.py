"""Who reads the rows of a batch from trimtab's own source: the driver, which saves a stage, or tasks. Pure."""

from __future__ import annotations

from enum import Enum

from trimtab.control.intake import Intake
from trimtab.driver.reading import Read

SMALL_ROWS = 20_000
"""Up to this many rows may be read by the driver: a second stage would take longer than they do."""
SMALL_BYTES = 8 << 20
"""And up to this many bytes: all of them pass through the memory of one process, twice."""


class Reader(Enum):
    """Who reads the rows of a batch."""

    DRIVER = "the driver, and the job has one stage"
    TASKS = "tasks, side by side, in a stage of their own"


def who_reads(read: Read, intake: Intake | None) -> Reader:
    """Tasks read all of which nothing is known, such as the first batch of a start; the driver reads what is small.

    While so many rows wait that the intake's limit decides what a batch takes, tasks read small batches, too. The two
    ways differ in what a batch costs: if the limit itself decided between them, and one way leads it above `SMALL_ROWS`
    and the other one below, it would swing.

    >>> who_reads(Read((), rows=500, size_bytes=50_000), None).name
    'DRIVER'
    """
    if read.rows > SMALL_ROWS or read.size_bytes > SMALL_BYTES:
        return Reader.TASKS
    is_behind = read.waiting > read.rows and intake is not None and intake.max_rows > SMALL_ROWS
    return Reader.TASKS if is_behind else Reader.DRIVER
