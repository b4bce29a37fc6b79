"""Accumulators that keep values: count(DISTINCT), top_k, array_agg and collect_list. All exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import canonical, int64s, valid_mask
from trimtab.engine.columns.groups import first_rows
from trimtab.engine.columns.keys import joint_codes, value_codes
from trimtab.engine.columns.order import order_codes, stable_order
from trimtab.engine.windows.accumulator import Inputs, Slots
from trimtab.engine.windows.lists import items_of, lists_by_slot


@dataclass(frozen=True, slots=True)
class Tally:
    """How often each value occurs; the answer is how many there are, or the `top` most frequent.

    Exact, so its state grows with the number of different values in the window, not with the
    number of rows. Of equally frequent values the smaller one comes first.
    """

    kind: pa.DataType
    top: int | None = None

    @property
    def result(self) -> pa.DataType:
        """A number, or a list of values with their counts."""
        if self.top is None:
            return pa.int64()
        return pa.list_(pa.struct([("item", self.kind), ("count", pa.int64())]))

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The values and their counts."""
        items = pa.field("items", pa.list_(self.kind))
        return (items, pa.field("counts", pa.list_(pa.int64())))

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Add up the counts of the same value; nulls don't count."""
        valid = valid_mask(rows.args[0])
        items, owners = items_of(parts[0], slots)
        counts, _ = items_of(parts[1], slots)
        known = row_slots.where(valid)
        items = pa.concat_arrays([items, rows.args[0].filter(pa.array(valid))])
        owners = owners.then(known)
        weights = np.concatenate([int64s(counts), np.ones(len(known.ids), np.int64)])
        codes, total = joint_codes([(owners.ids, owners.count), value_codes(items)])
        firsts = first_rows(codes, total)
        sums = np.bincount(codes, weights=weights, minlength=total).astype(np.int64)
        items = canonical(items.take(pa.array(firsts)))
        return lists_by_slot([items, pa.array(sums)], Slots(owners.ids[firsts], owners.count))

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """How many values, or the most frequent ones."""
        every = Slots(np.arange(len(parts[0])), len(parts[0]))
        items, owners = items_of(parts[0], every)
        if self.top is None:
            return pa.array(np.bincount(owners.ids, minlength=owners.count).astype(np.int64))
        counts, _ = items_of(parts[1], every)
        order = stable_order([owners.ids, -int64s(counts), order_codes(items)], len(items))
        _, starts = owners.ordered
        order = order[np.arange(len(order)) - starts[owners.ids[order]] < self.top]  # by the rank in its slot
        places = pa.array(order)
        taken = [items.take(places), counts.take(places)]
        pairs = pa.StructArray.from_arrays(taken, fields=list(self.result.value_type))
        return lists_by_slot([pairs], Slots(owners.ids[order], owners.count))[0]


@dataclass(frozen=True, slots=True)
class Collection:
    """`array_agg` (keeps nulls) and `collect_list` (skips them), by time and then arrival."""

    kind: pa.DataType
    nulls: bool

    @property
    def result(self) -> pa.DataType:
        """A list."""
        return pa.list_(self.kind)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The values and where they were."""
        number = pa.list_(pa.int64())
        items = pa.field("items", pa.list_(self.kind))
        return (items, pa.field("times", number), pa.field("arrivals", number))

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Join the lists; `finish` sorts them."""
        fresh = [rows.args[0], pa.array(rows.times), pa.array(rows.arrivals)]
        if not self.nulls:
            valid = valid_mask(rows.args[0])
            fresh, row_slots = [column.filter(pa.array(valid)) for column in fresh], row_slots.where(valid)
        split = [items_of(part, slots) for part in parts]
        columns = [pa.concat_arrays([old, new]) for (old, _), new in zip(split, fresh, strict=True)]
        return lists_by_slot(columns, split[0][1].then(row_slots))

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The sorted lists; without values an empty one, as in Spark's collect_list."""
        every = Slots(np.arange(len(parts[0])), len(parts[0]))
        (items, owners), (times, _), (arrivals, _) = (items_of(part, every) for part in parts)
        order = stable_order([owners.ids, int64s(times), int64s(arrivals)], len(items))
        slots = Slots(owners.ids[order], owners.count)
        return lists_by_slot([items.take(pa.array(order))], slots)[0]
