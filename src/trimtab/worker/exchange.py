"""Rows on their way from the tasks that read a source to the engines: Arrow blobs, one from each task to each engine.

Every task sends every engine the head of what it has read, also where it has no rows for it. So each engine knows the
newest time of all rows of the batch before it begins, and all of them use one watermark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from trimtab.machine_code.missing import Missing, if_missing
from trimtab.sources.source import Range, Source
from trimtab.worker.engine import run_engine
from trimtab.worker.measures import Measures
from trimtab.worker.orders import Head, Orders, packed
from trimtab.worker.set_aside import taken_and_aside
from trimtab.worker.tier_one import ColumnTierOne

Parcel = tuple[Head, bytes, bytes]
"""What a task sends to an engine: the head of all that it has read, the engine's rows, and rows for quarantine that it
has set aside. b"": there are none for this engine."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a task makes parcels of ranges."""

    source: Source
    schema: pa.Schema  # of the source's rows, as the queries know them
    tier_one: ColumnTierOne
    orders: Orders

    def parcels(self, parts: Iterable[Range]) -> Iterator[tuple[int, Parcel]]:
        """What goes to which engine; in order of the ranges."""
        for part in parts:
            if part.end == part.start:
                continue
            rows = self.source.read(part)
            time, partition = self.orders.time, part.partition
            table, others = taken_and_aside(rows, self.schema, self.tier_one.event_time, time, partition)
            with if_missing(Missing.PLAIN):  # the stream waits
                head, tables = self.tier_one.split(table, self.orders, partition)
            head, aside = replace(head, measures=Measures.of(rows)), b""
            if others is not None:
                head, aside = replace(head, events=head.events + others.num_rows), packed(others)
            for engine, table in enumerate(tables):
                # One engine puts them out, the same in every repetition.
                yield engine, (head, packed(table) if table.num_rows else b"", b"" if engine else aside)


def head_of_all(heads: Iterable[Head]) -> Head:
    """The head of the rows of several tasks.

    >>> head_of_all([Head(2, {"a": 5}), Head(1, {"a": 3, "b": 4})])
    Head(events=3, newest_us={'a': 5, 'b': 4})
    """
    events, newest_us, measures = 0, dict[str, int](), Measures()
    for head in heads:
        events, measures = events + head.events, measures + head.measures
        for name, at_us in head.newest_us.items():
            newest_us[name] = max(at_us, newest_us.get(name, at_us))
    return Head(events, newest_us, measures)


def run_with_parcels(orders: Orders, number: int, parcels: Sequence[Parcel]) -> tuple[Head, bytes]:
    """Run an engine over the parcels of all tasks: the head of the batch, and the engine's report, pickled."""
    head = head_of_all(each for each, _, _ in parcels)
    batches = (batch for _, blob, _ in parcels if blob for batch in pa.ipc.open_stream(blob))
    aside = [pa.ipc.open_stream(blob).read_all() for _, _, blob in parcels if blob]
    [reported] = run_engine(replace(orders, head=head), number, batches, aside)
    [report] = reported.column("report").to_pylist()
    return head, report


def pieces(ranges: Sequence[Range], tasks: int) -> list[Range]:
    """The ranges, cut further so that there is work for this many tasks; a position is never cut.

    >>> pieces([Range("a", 0, 9), Range("b", 5, 6)], 4)
    [Range(partition='a', start=0, end=4), Range(partition='a', start=4, end=9), Range(partition='b', start=5, end=6)]
    """
    some = [part for part in ranges if part.end > part.start]
    cuts = max(1, tasks // max(1, len(some)))
    found = []
    for part in some:
        count = min(cuts, part.end - part.start)
        edges = [part.start + (part.end - part.start) * number // count for number in range(count + 1)]
        found += [Range(part.partition, start, end) for start, end in itertools.pairwise(edges)]
    return found
