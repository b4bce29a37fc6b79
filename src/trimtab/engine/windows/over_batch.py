"""Sorts the rows of a batch, and decides which of them leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array, int64s, plain
from trimtab.engine.columns.keys import Keys
from trimtab.engine.columns.order import arrival_order, key_levels
from trimtab.engine.columns.times import floor_us
from trimtab.engine.operator import ARRIVAL, Moment, is_internal
from trimtab.engine.windows.over_memory import Memory
from trimtab.engine.windows.over_plan import Plan
from trimtab.errors import InputError


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that leave now, and those that keep waiting.

    `by_time` sorts them by the order columns and arrival. `ranks` are the order columns as numbers,
    `last_ranks` the same for the last row of every key that has left before.
    """

    rows: dict[str, pa.Array]
    keys: Int64Array
    by_time: Int64Array
    positions: Int64Array | FloatArray
    ranks: list[Int64Array]
    last_ranks: list[Int64Array]
    waiting: pa.Table
    waiting_keys: Int64Array


def sort_batch(plan: Plan, rows: pa.Table, numbers: Int64Array, memory: Memory, moment: Moment) -> Batch:
    """Sort the rows that have waited and the new `rows`, with their key `numbers`."""
    arrays = {n: pa.concat_arrays([plain(memory.waiting[n]), plain(rows[n])]) for n in plan.columns}
    keys = np.concatenate([memory.waiting_keys, numbers])
    positions = plan.positions(arrays[plan.time])
    ranks: list[Int64Array] = []
    last_ranks: list[Int64Array] = []
    for key, last in zip(plan.order, memory.last, strict=True):
        both = pa.concat_arrays([last, arrays[key.column]])
        for codes in key_levels(both, key):
            last_ranks.append(codes[: len(last)])
            ranks.append(codes[len(last) :])
    by_time = arrival_order(ranks, int64s(arrays[ARRIVAL]))
    ready = np.ones(len(keys), np.bool_)
    if moment.closing:
        pass
    elif moment.watermark_us is not None:
        times = floor_us(positions.astype(np.int64, copy=False), plan.type_of(plan.time))
        ready = times < moment.watermark_us
    elif plan.peers:
        ready = ~_last_peers(keys, by_time, ranks, len(memory.rows_before))
    table = pa.table(arrays)
    if ready.all():
        return Batch(arrays, keys, by_time, positions, ranks, last_ranks, table.slice(0, 0), keys[:0])
    leave = pa.array(ready)
    renumbered = np.cumsum(ready) - 1
    return Batch(
        rows={name: array.filter(leave) for name, array in arrays.items()},
        keys=keys[ready],
        by_time=renumbered[by_time[ready[by_time]]],
        positions=positions[ready],
        ranks=[rank[ready] for rank in ranks],
        last_ranks=last_ranks,
        waiting=table.filter(pa.array(~ready)),
        waiting_keys=keys[~ready],
    )


def _last_peers(keys: Int64Array, by_time: Int64Array, ranks: Sequence[Int64Array], count: int) -> BoolArray:
    """The rows that are last in the order of their key, with all their equals."""
    last = np.full(count, -1, np.int64)
    last[keys[by_time]] = by_time  # of several writes to a key the last one wins
    peers = np.ones(len(keys), np.bool_)
    for rank in ranks:
        peers &= rank == rank[last[keys]]
    return peers


def refuse_disorder(plan: Plan, batch: Batch, memory: Memory, keys: Keys) -> None:
    """Raise `input.out-of-order` if a row belongs before one that has left already."""
    first = np.full(keys.count, -1, np.int64)
    backwards = batch.by_time[::-1]
    first[batch.keys[backwards]] = backwards
    touched = np.flatnonzero((first >= 0) & (memory.rows_before > 0))
    undecided, before = np.ones(len(touched), np.bool_), np.zeros(len(touched), np.bool_)
    for rank, last in zip(batch.ranks, batch.last_ranks, strict=True):
        new, old = rank[first[touched]], last[touched]
        before |= undecided & (new < old)
        undecided &= new == old
    if before.any():
        key = int(touched[np.flatnonzero(before)[0]])
        late = batch.rows[plan.time][int(first[key])].as_py()
        whose = "".join(f", for {n} = {c[key].as_py()}" for n, c in keys.columns.items() if not is_internal(n))
        left = memory.last[0][key].as_py()
        message = f"a row with {plan.time} = {late} comes in a later batch than one with {left}{whose}"
        hint = f"sort the input by {plan.time}, or declare it as the event time with a delay"
        raise InputError("input.out-of-order", message, hint)
