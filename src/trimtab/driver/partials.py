"""Merges the parts of keys that are spread over engines: in the driver, between the engines and the sinks.

Each engine took its part of a spread key's rows into a new, empty state. Here these states are merged into the stored
one, which then advances without rows, by the watermark of the whole batch: so results are those of an engine that took
all rows, and come no later. The resulting state is stored as a segment of its own, where the engine that owns the key's
group finds it as soon as the key isn't spread any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.watermark import BEGINNING_US
from trimtab.engine.operator import Moment, State
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.state.bundle import Bundle, Part, state_of, to_bundle
from trimtab.state.checkpoint import segment_name
from trimtab.state.segment import write_segment
from trimtab.worker.intake import Reading
from trimtab.worker.orders import EnginePlan, EngineReport, Int64Array, Orders, Output, PackedState, packed
from trimtab.worker.ready import ReadyQuery, operands, ready_query
from trimtab.worker.turns import open_reader

DRIVER = -1
"""The engine number in the report of the merged parts."""


class Merger:
    """Merges the parts of spread keys of one stream's split queries, batch after batch."""

    def __init__(self, plan: EnginePlan) -> None:
        self._plan = plan
        self._queries: list[tuple[Reading, ReadyQuery, pa.Table]] = [
            (
                reading,
                ready_query(plan.queries[reading.query], plan.max_threads),
                operands(reading, plan.schema.empty_table()),
            )
            for reading in plan.intake.split_readings
        ]
        # The state of each query's spread keys after the last batch. To read it from files again, the driver would have
        # to fetch those of all engines, batch after batch.
        self._left: dict[str, Bundle] = {}
        self._left_by: int | None = None

    def merge(self, orders: Orders, reports: Sequence[EngineReport], watermark_us: int | None) -> list[EngineReport]:
        """The results for spread keys in this batch, reported like those of one more engine; empty if none are spread.

        `watermark_us` is the watermark at the end of the batch.
        """
        slots = orders.spread
        if not len(slots):
            return []
        outputs: dict[str, Output] = {}
        parts: dict[str, Bundle] = {}
        left: dict[str, Bundle] = {}
        for reading, ready, no_rows in self._queries:
            query = reading.query
            after: State = {}
            fresh = [_unpacked(each.partials[query]) for each in reports if query in each.partials]
            states = [state for state in (self._stored(orders, query, slots), *fresh) if state]
            if states:
                state = ready.operator.merge(states, no_rows.schema)
                moment = Moment(
                    watermark_us=BEGINNING_US if watermark_us is None else watermark_us, closing=orders.closing
                )
                output, after = ready.operator.advance(no_rows, state, moment)
                table = ready.finish.run(output)
                outputs[query] = Output(table.num_rows, inline=packed(table))
            left[query] = to_bundle(after, slots)
            if states and not orders.closing:
                parts[query] = left[query]
        self._left, self._left_by = left, orders.batch
        return [self._report(orders, outputs, parts)]

    def _stored(self, orders: Orders, query: str, slots: Int64Array) -> State:
        """The state of spread keys before the batch: from memory, or from files for those that weren't spread then.

        Its keys are in order of their slots, wherever they came from: a repetition has all of them from files, and has
        to give the same rows in the same order.
        """
        found: list[Part] = []
        if self._left_by == orders.batch - 1:
            known = self._left[query]
            _, places, _ = np.intersect1d(known.slots, slots, assume_unique=True, return_indices=True)
            found.append((known, places))
            slots = np.setdiff1d(slots, known.slots, assume_unique=True)
        if len(slots):
            owned = np.zeros(self._plan.key_groups, np.bool_)
            owned[slots >> GROUP_SHIFT] = True
            found += open_reader(orders, self._plan.key_groups, query, owned).find(slots)
        return state_of(found)

    def _report(self, orders: Orders, outputs: dict[str, Output], parts: dict[str, Bundle]) -> EngineReport:
        name = segment_name(orders.batch, "d", orders.incarnation, orders.epoch)
        segment, sizes = write_segment(orders.folder, name, parts) if parts else (None, {})
        found = {query: output for query, output in outputs.items() if output.rows}
        due_us = [each.first_due_us for each in parts.values() if each.first_due_us is not None]
        return EngineReport(
            engine=DRIVER, next_due_us=min(due_us, default=None), outputs=found, segment=segment, parts=sizes
        )


def _unpacked(state: PackedState) -> State:
    return {name: pa.ipc.open_stream(data).read_all() for name, data in state.items()}
