"""Rows on their way from the tasks that read a source to the engines: Arrow blobs, a parcel for each engine.

Every task sends every engine the head of what it has read, also where it has no rows for it. So each engine knows the
newest time of all rows of the batch before it begins, and all of them use one watermark.
"""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from trimtab.machine_code.missing import Missing, if_missing
from trimtab.sources.side_by_side import rows_of
from trimtab.sources.source import Range, Source
from trimtab.worker.engine import run_engine
from trimtab.worker.hashes import Hashes
from trimtab.worker.left_out import completed
from trimtab.worker.measures import Measures
from trimtab.worker.orders import Head, Orders
from trimtab.worker.ready import unpacked
from trimtab.worker.set_aside import taken_and_aside
from trimtab.worker.tier_one import ColumnTierOne
from trimtab.worker.whereabouts import this_executor

TOGETHER = 250_000
"""A task sends the rows of small ranges together, until they are this many: each parcel takes some time of its own."""
PARCEL_BYTES = 512 << 10
"""About how large a parcel is: the JVM takes longer for arrays of several megabytes than for as many bytes in smaller
ones. Measured: 5 MB each takes 95 ms of CPU time for 20 MB, there and back, 0.25 MB each takes 72 ms."""
_HEAD = b"trimtab.head"


class Parcel(NamedTuple):
    """What a task sends to an engine: one or more of these.

    head        of all that the task has read; of a further parcel, nothing
    batches     the engine's rows
    aside       rows for quarantine that the task has set aside; None: there are none for this engine
    """

    head: Head
    batches: Sequence[pa.RecordBatch]
    aside: pa.Table | None = None

    def packed(self, schema: pa.Schema) -> pa.Buffer:
        """The parcel as bytes: an Arrow stream of the rows, and after it one of those set aside."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema.with_metadata({_HEAD: pickle.dumps(self.head)})) as writer:
            for batch in self.batches:
                writer.write_batch(batch)
        if self.aside is not None:
            with pa.ipc.new_stream(sink, self.aside.schema) as writer:
                writer.write_table(self.aside)
        return sink.getvalue()

    @staticmethod
    def unpacked(packed: bytes | pa.Buffer) -> Parcel:
        """The parcel that was packed; its columns are these bytes, and nothing is copied."""
        stream = pa.BufferReader(packed)
        with pa.ipc.open_stream(stream) as reader:
            head: Head = pickle.loads(reader.schema.metadata[_HEAD])
            batches = [batch.replace_schema_metadata(None) for batch in reader]
        is_more = stream.tell() < stream.size()
        return Parcel(head, batches, pa.ipc.open_stream(stream).read_all() if is_more else None)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a task makes parcels of ranges."""

    source: Source
    schema: pa.Schema  # of the source's rows, as the queries know them
    tier_one: ColumnTierOne
    orders: Orders

    def parcels(self, parts: Sequence[Range], only: int | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """What goes to which engine, packed; in order of the ranges. `only`: what goes to this one."""
        tables, aside, counts = list[pa.Table](), list[pa.Table](), list[tuple[str, int]]()
        measures, began_s = Measures(), time.perf_counter()
        some, event_time = [part for part in parts if part.end > part.start], self.tier_one.event_time
        with_places = self.tier_one.has_places
        for part, rows in zip(some, rows_of(self.source, some), strict=True):
            measures += Measures.of(rows)
            taken, others = taken_and_aside(
                rows, self.schema, event_time, self.orders.time, part.partition, with_places=with_places
            )
            tables.append(taken)
            aside += [] if others is None else [others]
            counts.append((part.partition, taken.num_rows))
            if sum(count for _, count in counts) >= TOGETHER:
                yield from self._sent(tables, aside, counts, measures, began_s, only)
                tables, aside, counts, measures, began_s = [], [], [], Measures(), time.perf_counter()
        if tables:
            yield from self._sent(tables, aside, counts, measures, began_s, only)

    def _sent(
        self,
        tables: Sequence[pa.Table],
        aside: Sequence[pa.Table],
        counts: Sequence[tuple[str, int]],
        measures: Measures,
        began_s: float,
        only: int | None,
    ) -> Iterator[tuple[int, pa.Buffer]]:
        with if_missing(Missing.PLAIN):  # the stream waits
            whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
            head, parts = self.tier_one.split(whole, self.orders, counts, is_complete=False)
        others = pa.concat_tables(aside) if aside else None
        measures += Measures(reading_s={this_executor(): time.perf_counter() - began_s})
        head = replace(head, events=head.events + (0 if others is None else others.num_rows), measures=measures)
        for engine, table in enumerate(parts):
            if only not in (None, engine):
                continue
            first, *more = _cut(table)
            # One engine puts them out, the same in every repetition.
            yield engine, Parcel(head, first, None if engine else others).packed(table.schema)
            for batches in more:
                yield engine, Parcel(Head(), batches).packed(table.schema)


def _cut(table: pa.Table) -> list[list[pa.RecordBatch]]:
    """The rows, as many at a time as a parcel has."""
    count = max(1, -(-table.nbytes // PARCEL_BYTES)) if table.num_rows else 1
    edges = [table.num_rows * number // count for number in range(count + 1)]
    return [table.slice(start, end - start).to_batches() for start, end in itertools.pairwise(edges)]


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


def run_with_parcels(orders: Orders, number: int, parcels: Iterable[bytes | pa.Buffer]) -> tuple[Head, bytes]:
    """Run an engine over the parcels of all tasks: the head of the batch, and the engine's report, pickled."""
    found = [Parcel.unpacked(each) for each in parcels]
    head = head_of_all(each.head for each in found)
    aside = [each.aside for each in found if each.aside is not None]
    [reported] = run_engine(replace(orders, head=head), number, _completed(orders, found), aside)
    [report] = reported.column("report").to_pylist()
    return head, report


def _completed(orders: Orders, parcels: Sequence[Parcel]) -> Iterator[pa.RecordBatch]:
    """The rows of all parcels, with what tasks have left to the engine."""
    batches = [batch for parcel in parcels for batch in parcel.batches]
    if batches:
        plan = unpacked(orders).plan
        hashes = Hashes(plan.intake, plan.key_groups, plan.keep_original)
        with if_missing(Missing.PLAIN):
            rows = completed(pa.Table.from_batches(batches).combine_chunks(), plan.schema, hashes)
        yield from rows.to_batches()
