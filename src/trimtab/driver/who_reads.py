"""Who reads the rows of a batch from trimtab's own source: the driver, which saves a stage, or tasks. Pure."""

from __future__ import annotations

from enum import Enum

from trimtab.driver.reading import Read

SMALL_ROWS = 20_000
"""Up to this many rows may be read by the driver: a second stage would take longer than they do."""
SMALL_BYTES = 8 << 20
"""And up to this many bytes: all of them pass through the memory of one process, twice."""
FEW_ROWS = 5_000
"""Up to this many rows the driver reads, whatever waits."""


class Reader(Enum):
    """Who reads the rows of a batch."""

    DRIVER = "the driver, and the job has one stage"
    TASKS = "tasks, side by side, in a stage of their own"


def who_reads(read: Read, before: Reader) -> Reader:
    """Tasks read all of which nothing is known, such as the first batch of a start; the driver reads what is small.

    before   who read the batch before

    The two ways differ in what a batch costs. If its rows alone decided between them, and one way led the limit of the
    intake above `SMALL_ROWS` and the other one below, it would swing. So tasks go on, while more rows wait than a batch
    takes, until it takes so few that their stage would be most of its time.

    >>> who_reads(Read((), rows=500, size_bytes=50_000), Reader.TASKS).name
    'DRIVER'
    """
    if read.rows > SMALL_ROWS or read.size_bytes > SMALL_BYTES:
        return Reader.TASKS
    return before if read.waiting > read.rows > FEW_ROWS else Reader.DRIVER
