"""Several ranges of a source that mostly waits for servers, read by one process at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from trimtab.sources.source import Range, Rows, Source, positions_of

SMALL = 50_000
"""Up to this many positions are read at the same time: they are in memory together."""


def rows_of(source: Source, parts: Sequence[Range]) -> Iterator[Rows]:
    """What is read of each range, in their order.

    A source may say, as `at_once`, how many of its ranges a process may read at the same time, in threads.
    """
    at_once = min(getattr(source, "at_once", 1), len(parts))
    if at_once < 2 or positions_of(parts) > SMALL:
        yield from map(source.read, parts)
    else:
        with ThreadPoolExecutor(at_once, "trimtab-read") as threads:
            yield from threads.map(source.read, parts)
