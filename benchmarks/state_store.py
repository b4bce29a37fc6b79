"""The state store compared with RocksDB: the same keys loaded and written back, batch after batch.

`python -m benchmarks.state_store` prints the table of docs/state.md; `--large` adds ten million live keys, which takes
several minutes and some gigabytes of disk; `--quick` uses small sizes. It needs `rocksdict`.

One file, though it is long: the two stores are read side by side.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import os
import pathlib
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from benchmarks import report
from benchmarks.measure import Timing
from benchmarks.results import Cell, Number, Result, Table, milliseconds
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.state.bundle import State, group_start, to_bundle
from trimtab.state.compaction import SHARE, TARGET_KEYS, apply_merges, carry_out, plan_merges
from trimtab.state.files import Folder
from trimtab.state.gathering import Int64Array
from trimtab.state.manifest import StateRun
from trimtab.state.runs import Reader
from trimtab.state.segment import open_segment, write_segment

KEY_GROUPS = 1024
POOL = 10_007
"""How many different states there are; every key has one of them."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run."""

    live_keys: tuple[int, ...]
    touched: int
    batches: int


FULL = Sizes((10_000, 1_000_000), 25_000, 10)
QUICK = Sizes((10_000, 100_000), 5_000, 5)
TINY = Sizes((100, 300), 100, 2)  # the more are touched, the shorter the warm-up
LARGE_KEYS = 10_000_000


class Store(Protocol):
    """A store that is compared."""

    def fill(self, slots: Int64Array) -> None:
        """Write the first state of all keys."""

    def load(self, slots: Int64Array) -> Any:
        """The state of these slots."""

    def write(self, batch: int, slots: Int64Array) -> Iterator[None]:
        """Write the state after a batch; time before the first `yield` is not counted."""

    def is_right(self, answer: Any, slots: Int64Array, numbers: Int64Array) -> bool:
        """Whether the loaded states are those of these numbers."""

    def close(self) -> None:
        """Close the files."""


class Pool:
    """States like those of the V-shape: about two rows and one partial match per key."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.rows_of = rng.integers(1, 4, POOL)
        self.starts = np.concatenate([[0], np.cumsum(self.rows_of)])
        rows = int(self.starts[-1])
        deadlines = rng.integers(0, 1 << 40, POOL)
        counters = {name: rng.integers(0, 9, POOL) for name in ("number", "begun", "tail", "front")}
        self.keys = pa.table(
            {
                "symbol": [f"symbol {number}" for number in range(POOL)],
                **counters,
                "deadline_us": pa.array(deadlines, mask=deadlines % 5 == 0),
            }
        )
        self.rows = pa.table(
            {
                "ts_us": rng.integers(0, 1 << 40, rows),
                "price": rng.random(rows),
                "__arrival": np.arange(rows),
                "pending": rng.random(rows) < 0.5,
            }
        )
        self.threads = pa.table({f"i{number}": rng.integers(0, 99, POOL) for number in range(8)})

    def numbers(self, slots: Int64Array, batch: int | Int64Array) -> Int64Array:
        """The number of each slot's state after the batch that touched it last."""
        return np.asarray((slots ^ (slots >> 20) ^ (np.asarray(batch) * 7919)) % POOL)

    def state(self, slots: Int64Array, batch: int) -> State:
        """The state of the slots after a batch that touched them, in the order of the slots."""
        return self.state_of(slots, self.numbers(slots, batch))

    def state_of(self, slots: Int64Array, numbers: Int64Array) -> State:
        """The state of slots with these state numbers."""
        counts = self.rows_of[numbers]
        ends = np.cumsum(counts)
        picked = np.arange(int(ends[-1])) + np.repeat(self.starts[numbers] - (ends - counts), counts)
        own = np.arange(len(slots))
        threads = self.threads.take(numbers).add_column(0, "key", pa.array(own))
        rows = self.rows.take(picked).add_column(0, "key", pa.array(np.repeat(own, counts)))
        keys = self.keys.take(numbers).add_column(0, "__slot", pa.array(slots))
        return {"keys": keys, "rows": rows, "threads": threads}


@dataclass
class Ours:
    """trimtab's store with one engine, as a job uses it: segments, merges by plan, files no run needs deleted."""

    folder: Folder
    pool: Pool
    runs: tuple[StateRun, ...] = ()
    sequence: int = 0
    written: int = 0

    def fill(self, slots: Int64Array) -> None:
        """Write base runs, as large as after merges."""
        ranges = max(1, round(len(slots) / TARGET_KEYS))
        bounds = np.linspace(0, KEY_GROUPS, ranges + 1).astype(int).tolist()
        for first, end in itertools.pairwise(bounds):
            own = slots[group_start(slots, first) : group_start(slots, end)]
            self.runs = (*self.runs, self._add(to_bundle(self.pool.state(own, 0), own), True, 0, first, end))

    def load(self, slots: Int64Array) -> State:
        """Load with a reader of the current version."""
        opened = [(run, open_segment(self.folder.path_of(run.segment)).part("q")) for run in self.runs]
        return Reader(opened, KEY_GROUPS).load(slots)

    def write(self, batch: int, slots: Int64Array) -> Iterator[None]:
        """Write a segment, and do the merges that are due."""
        state = self.pool.state(slots, batch)
        yield
        self.sequence += 1
        self.runs = (self._add(to_bundle(state, slots), False, self.sequence, 0, KEY_GROUPS), *self.runs)
        yield
        done = []
        for merge in plan_merges("q", self.runs, KEY_GROUPS):
            made = carry_out(merge, lambda run: open_segment(self.folder.path_of(run.segment)).part("q"))
            runs = [self._add(bundle, merge.to_base, merge.sequence, *bounds) for *bounds, bundle in made]
            done.append((merge, runs))
        before = {run.segment for run in self.runs} | {run.segment for _, runs in done for run in runs}
        self.runs = apply_merges(self.runs, done)
        for name in before - {run.segment for run in self.runs}:
            self.folder.delete(name)

    def close(self) -> None:
        """There is nothing to close."""

    def is_right(self, answer: Any, slots: Int64Array, numbers: Int64Array) -> bool:
        """Compare."""
        return _equal(answer, self.pool.state_of(slots, numbers))

    def _add(self, bundle: Any, is_base: bool, sequence: int, first: int, end: int) -> StateRun:
        self.written += 1
        name = f"{self.written}.segment"
        _, sizes = write_segment(self.folder, name, {"q": bundle})
        size = sizes["q"]
        return StateRun(name, "q", sequence, is_base, first, end, size.slots, size.keys, size.size_bytes)


@dataclass
class Rocks:
    """RocksDB, a key's state as one value; a batch is one write with the log synced, as durable as ours.

    With `pickled` a value is a pickle of tuples, and loading makes tables of it; without, values are bytes that are
    neither encoded nor decoded, so no encoding can be faster.
    """

    path: str
    pool: Pool
    pickled: bool
    values: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open an empty database."""
        self.rocksdict = importlib.import_module("rocksdict")
        options = self.rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(self.rocksdict.DBCompressionType.none())  # as in our store
        options.set_write_buffer_size(64 << 20)
        options.set_max_background_jobs(2)
        blocks = self.rocksdict.BlockBasedOptions()
        blocks.set_block_cache(self.rocksdict.Cache(4 << 30))
        blocks.set_bloom_filter(10, False)
        options.set_block_based_table_factory(blocks)
        self.database = self.rocksdict.Rdict(self.path, options)
        self.synced = self.rocksdict.WriteOptions()
        self.synced.sync = True
        self.values = self._encoded(self.pool.state_of(np.arange(POOL), np.arange(POOL)))

    def fill(self, slots: Int64Array) -> None:
        """Write in large batches without a log, then compact."""
        quick = self.rocksdict.WriteOptions()
        quick.disable_wal = True
        for begin in range(0, len(slots), 100_000):
            some = slots[begin : begin + 100_000]
            self._put(some, self._known(self.pool.numbers(some, 0)), quick)
        self.database.flush()
        self.database.compact_range(None, None)

    def load(self, slots: Int64Array) -> Any:
        """Load all keys in one call, in order."""
        found = self.database.get(_names(slots))
        return self._decoded(slots, found) if self.pickled else found

    def write(self, batch: int, slots: Int64Array) -> Iterator[None]:
        """Write all keys in one call; RocksDB merges in the background."""
        state = self.pool.state(slots, batch) if self.pickled else {}
        values = self._known(self.pool.numbers(slots, batch))
        yield
        self._put(slots, self._encoded(state) if self.pickled else values, self.synced)
        yield

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def is_right(self, answer: Any, slots: Int64Array, numbers: Int64Array) -> bool:
        """Compare."""
        if not self.pickled:
            return bool(answer == self._known(numbers))
        return _equal(answer, self.pool.state_of(slots, numbers))

    def _known(self, numbers: Int64Array) -> list[bytes]:
        return [self.values[number] for number in numbers.tolist()]

    def _put(self, slots: Int64Array, values: Sequence[bytes], how: Any) -> None:
        batch = self.rocksdict.WriteBatch(raw_mode=True)
        for name, value in zip(_names(slots), values, strict=True):
            batch.put(name, value)
        self.database.write(batch, how)

    def _encoded(self, state: State) -> list[bytes]:
        keys = state["keys"].drop_columns(["__slot"])
        own = zip(*(column.to_pylist() for column in keys.columns), strict=True)
        parts = []
        for name in ("rows", "threads"):
            columns = [column.to_pylist() for column in state[name].drop_columns(["key"]).columns]
            rows = list(zip(*columns, strict=True))
            starts = np.searchsorted(state[name]["key"].to_numpy(), np.arange(keys.num_rows + 1)).tolist()
            parts.append([rows[begin:end] for begin, end in itertools.pairwise(starts)])
        return [pickle.dumps(each, 5) for each in zip(own, *parts, strict=True)]

    def _decoded(self, slots: Int64Array, values: Sequence[bytes]) -> State:
        own, rows, threads = zip(*map(pickle.loads, values), strict=True)
        keys = _table(own, self.pool.keys.schema).add_column(0, "__slot", pa.array(slots))
        state = {"keys": keys}
        for name, lists, kept in (("rows", rows, self.pool.rows), ("threads", threads, self.pool.threads)):
            numbers = np.repeat(np.arange(len(values)), [len(each) for each in lists])
            table = _table(list(itertools.chain.from_iterable(lists)), kept.schema)
            state[name] = table.add_column(0, "key", pa.array(numbers))
        return state


def _equal(found: State, expected: State) -> bool:
    return all(found[name].equals(expected[name]) for name in ("keys", "rows", "threads"))


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema)


def _names(slots: Int64Array) -> list[bytes]:
    """Slots as names of keys, which have the same order."""
    joined = slots.astype(">i8").tobytes()
    return [joined[at : at + 8] for at in range(0, len(joined), 8)]


def _ours(folder: str, pool: Pool) -> Store:
    return Ours(Folder(folder), pool)


STORES: dict[str, Callable[[str, Pool], Store]] = {
    "trimtab": _ours,
    "RocksDB, pickled": lambda folder, pool: Rocks(folder, pool, pickled=True),
    "RocksDB, bytes only": lambda folder, pool: Rocks(folder, pool, pickled=False),
}


@dataclass
class Measured:
    """The times of one store's batches, and the bytes that they wrote."""

    load: list[float] = field(default_factory=list)
    write: list[float] = field(default_factory=list)
    merge: list[float] = field(default_factory=list)
    bytes_written: int = 0


def run(sizes: Sizes) -> Result:
    """Measure every store with every number of live keys."""
    rows: list[tuple[Cell, ...]] = []
    pool = Pool()
    for live_keys in sizes.live_keys:
        slots = _slots(live_keys)
        touched = min(sizes.touched, live_keys)
        # Long enough that merges into base runs have reached their final frequency.
        warm_up = max(8, round(1.3 * live_keys / SHARE / touched))
        for name, opened in STORES.items():
            with tempfile.TemporaryDirectory(prefix="trimtab-state-") as folder:
                store = opened(folder, pool)
                each = _measured(store, pool, slots, touched, warm_up, sizes.batches)
                store.close()
            total = [sum(parts) for parts in zip(each.load, each.write, each.merge, strict=True)]
            rows.append(
                (
                    f"{live_keys:,}",
                    name,
                    milliseconds(Timing(tuple(each.load), touched)),
                    milliseconds(Timing(tuple(each.write), touched)),
                    "in the background" if name.startswith("RocksDB") else _mean(each.merge),
                    _mean(total),
                    f"{each.bytes_written / (warm_up + sizes.batches) / 1e6:.1f} MB",
                )
            )
    columns = ("live keys", "store", "load", "write", "merge, mean", "all, mean", "written a batch")
    return Result(
        "Where state lies",
        f"Each batch loads the state of {sizes.touched:,} keys picked at random (all keys, if there are fewer) and"
        f" writes it back changed: {sizes.batches} batches after a warm-up. A key has a row in `keys`, one to three"
        " kept rows and one partial match. What is loaded are Arrow tables.",
        (Table(columns, tuple(rows)),),
        notes=(
            "Every batch is on disk when its write returns: ours syncs its segment, RocksDB its log.",
            "RocksDB: one multi-get and one write batch per batch, keys in order, no compression, a bloom filter, a"
            " block cache that holds everything. *Pickled*: a key's state is a pickle of tuples. *Bytes only* neither"
            " makes nor reads values: no way of encoding them can be quicker.",
            "*Written a batch* counts what the process hands to the system, merges and logs included, warm-up too."
            " RocksDB then holds one version, where a job needs one per batch that it may have to go back to.",
        ),
    )


def _measured(store: Store, pool: Pool, slots: Int64Array, touched: int, warm_up: int, batches: int) -> Measured:
    found = Measured()
    store.fill(slots)
    began_bytes = _bytes_written()
    last = np.zeros(len(slots), np.int64)  # the batch that touched each slot last
    rng = np.random.default_rng(11)
    for batch in range(1, warm_up + batches + 1):
        chosen = np.sort(rng.choice(len(slots), touched, replace=False))
        times, answer = _batch(store, batch, slots[chosen])
        assert store.is_right(answer, slots[chosen], pool.numbers(slots[chosen], last[chosen]))
        last[chosen] = batch
        if batch > warm_up:
            for kept, took in zip((found.load, found.write, found.merge), times, strict=True):
                kept.append(took)
    found.bytes_written = _bytes_written() - began_bytes
    return found


def _batch(store: Store, batch: int, slots: Int64Array) -> tuple[list[float], Any]:
    """How long loading, writing and merging took, and what was loaded."""
    steps = store.write(batch, slots)
    next(steps)
    gc.collect()
    began = time.perf_counter()
    answer = store.load(slots)
    times = [time.perf_counter() - began]
    while len(times) < 3:
        began = time.perf_counter()
        next(steps, None)
        times.append(time.perf_counter() - began)
    return times, answer


def _slots(keys: int) -> Int64Array:
    rng = np.random.default_rng(3)
    groups = np.arange(keys, dtype=np.int64) % KEY_GROUPS
    return np.unique(groups << GROUP_SHIFT | rng.integers(0, 1 << GROUP_SHIFT, keys))


def _bytes_written() -> int:
    """The bytes that this process has written so far; 0 where the system doesn't count them."""
    listed = pathlib.Path("/proc/self/io")
    if not listed.exists():
        return 0
    return int(dict(line.split(": ") for line in listed.read_text(encoding="utf-8").splitlines())["wchar"])


def _mean(seconds: Sequence[float]) -> Number:
    mean = 1e3 * sum(seconds) / len(seconds)
    return Number(mean, mean, mean, "ms", 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state_store", description=__doc__)
    parser.add_argument("--large", action="store_true", help=f"also {LARGE_KEYS:,} live keys")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else FULL
    if options.large:
        sizes = replace(sizes, live_keys=(*sizes.live_keys, LARGE_KEYS))
    print(f"load average when it began: {os.getloadavg()[0]:.1f}\n")
    print(report.section(run(sizes)))


if __name__ == "__main__":
    main()
