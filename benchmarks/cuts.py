"""What a small batch costs if many keys have state: each batch gets the whole state and returns it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks import measure
from benchmarks.results import Cell, Result, Table, milliseconds
from benchmarks.vshape import SQL
from trimtab.engine.operator import ARRIVAL, Moment, Operator, State
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run."""

    live_keys: tuple[int, ...]
    batch_rows: int
    batches: int


FULL = Sizes((1_000, 100_000), 1_000, 25)
QUICK = Sizes((1_000, 10_000), 1_000, 5)
TINY = Sizes((10, 50), 20, 2)


def run(sizes: Sizes) -> Result:
    """Measure the same stream of batches with few and with many live keys, interpreted and compiled."""
    rows: list[tuple[Cell, ...]] = []
    for keys in sizes.live_keys:
        with measure.loading(measure.interpreted):
            plain = _batches(keys, sizes)
        with measure.loading(measure.compiled):
            quick = _batches(keys, sizes)
        rows.append((f"{keys:,}", milliseconds(quick), milliseconds(plain)))
    return Result(
        "Small batches",
        f"The V-shape through `Matcher.advance` in batches of {sizes.batch_rows:,} rows, each of any of the keys, all"
        " of which have an open partial match. Each batch gets the whole state, as Arrow tables.",
        (Table(("live keys", "a batch, compiled", "a batch, interpreted"), tuple(rows)),),
        notes=(
            "For information: a batch's cost grows with the number of keys in the state it gets, so a job passes only"
            " the keys that a batch touches, and those whose time has come.",
            "Batches of this size are interpreted until the process has compiled the kernel for a large one.",
        ),
    )


def _batches(keys: int, sizes: Sizes) -> measure.Timing:
    rng = np.random.default_rng(1)
    schema = pa.schema({"symbol": pa.int64(), "ts": pa.timestamp("us"), "price": pa.float64()})
    query = compile_query(SQL, {"ticks": schema})
    operator = operator_of(query)
    _, state = operator.advance(query.intake.run(_ticks(np.arange(keys), 0, rng)), {}, Moment())
    assert state["keys"].num_rows == keys
    arrived = keys
    seconds = []
    for number in range(sizes.batches + 1):
        chosen = rng.integers(0, keys, sizes.batch_rows)
        batch = query.intake.run(_ticks(chosen, arrived, rng))
        batch = batch.set_column(batch.column_names.index(ARRIVAL), ARRIVAL, pa.array(arrived + np.arange(len(chosen))))
        arrived += len(chosen)
        step = _Step(operator, batch, state)
        took = measure.seconds_of(step)
        state = step.after
        if number:  # the first one compiles
            seconds.append(took)
    return measure.Timing(tuple(seconds), sizes.batch_rows)


@dataclass
class _Step:
    operator: Operator
    batch: pa.Table
    after: State

    def __call__(self) -> None:
        _, self.after = self.operator.advance(self.batch, self.after, Moment())


def _ticks(keys: np.typing.NDArray[np.int64], arrived: int, rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "symbol": keys,
            "ts": pa.array(1000 * (arrived + np.arange(len(keys))), pa.timestamp("us")),
            "price": np.round(100 + rng.standard_normal(len(keys)), 2),
        }
    )
