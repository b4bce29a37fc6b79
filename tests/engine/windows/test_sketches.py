"""Sketches: as accurate as documented, deterministic, mergeable, readable by Apache DataSketches."""

import itertools

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from trimtab.engine.columns.arrays import FloatArray
from trimtab.engine.windows.accumulator import Accumulator, Inputs, Slots
from trimtab.engine.windows.cardinality import Cardinality, p_for
from trimtab.engine.windows.kll import serialised
from trimtab.engine.windows.quantiles import Quantiles, k_for

RANKS = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)


def take_in(accumulator: Accumulator, values: pa.Array, cuts: tuple[int, ...] = ()) -> list[pa.Array]:
    """The partial result of one slot, with rows added piece by piece."""
    parts = [pa.array([], field.type) for field in accumulator.fields]
    edges = [0, *cuts, len(values)]
    for start, stop in itertools.pairwise(edges):
        piece = values.slice(start, stop - start)
        zeros = np.zeros(len(piece), np.int64)
        slots = Slots(np.zeros(len(parts[0]), np.int64), 1)
        parts = accumulator.gather(parts, slots, Inputs((piece,), zeros, zeros), Slots(zeros, 1))
    return parts


def merge(accumulator: Accumulator, parts: list[pa.Array]) -> list[pa.Array]:
    """Partial results merged into one."""
    nothing = np.empty(0, np.int64)
    slots = Slots(np.zeros(len(parts[0]), np.int64), 1)
    return accumulator.gather(parts, slots, Inputs((pa.array([], pa.float64()),), nothing, nothing), Slots(nothing, 1))


def rank_error(values: FloatArray, answers: list[float]) -> float:
    ordered = np.sort(values)
    found = np.searchsorted(ordered, answers, "right") / len(values)
    return float(np.abs(found - np.array(RANKS)).max())


@pytest.mark.parametrize("shape", ["random", "ascending", "descending", "zigzag"])
def test_quantiles_are_within_their_error(shape: str) -> None:
    values = np.random.default_rng(7).standard_normal(100_000)
    if shape != "random":
        values = np.sort(values)
    if shape == "descending":
        values = values[::-1].copy()
    if shape == "zigzag":
        values = np.concatenate([values[::2], values[1::2][::-1]])
    sketch = Quantiles(pa.float64(), RANKS, many=True)
    (answers,) = sketch.finish(take_in(sketch, pa.array(values))).to_pylist()
    assert rank_error(values, answers) < 0.0133 * 1.3
    assert answers[0] == values.min()
    assert answers[-1] == values.max()


def test_cuts_give_the_same_sketch_to_the_bit() -> None:
    values = pa.array(np.random.default_rng(1).standard_normal(20_000))
    sketch = Quantiles(pa.float64(), RANKS, many=True)
    whole = take_in(sketch, values)
    assert take_in(sketch, values, (1, 199, 200, 7_001, 19_999)) == whole


def test_merged_quantiles_are_within_their_error() -> None:
    rng = np.random.default_rng(3)
    pieces = [rng.normal(n, 1, 5_000) for n in range(8)]
    sketch = Quantiles(pa.float64(), RANKS, many=True)
    columns = list(zip(*(take_in(sketch, pa.array(piece)) for piece in pieces), strict=True))
    parts = [pa.concat_arrays(column) for column in columns]
    merged = merge(sketch, parts)
    (answers,) = sketch.finish(merged).to_pylist()
    assert rank_error(np.concatenate(pieces), answers) < 0.0133 * 1.3


@pytest.mark.parametrize("size", [2, 199, 200, 1_000, 60_000])
def test_apache_datasketches_reads_the_sketch(size: int) -> None:
    values = np.random.default_rng(size).standard_normal(size)
    sketch = Quantiles(pa.float64(), RANKS)
    items, levels, count, least, most = take_in(sketch, pa.array(values))
    data = serialised(
        200, count[0].as_py(), levels.values.to_numpy(), items.values.to_numpy(), least[0].as_py(), most[0].as_py()
    )
    theirs = datasketches.kll_doubles_sketch.deserialize(data)
    assert theirs.n == size
    assert theirs.num_retained == len(items.values)
    assert theirs.get_quantile(0.5) == pytest.approx(np.median(values), abs=0.05 + 1 / size)
    # The library can update it like one of its own.
    theirs.update(values)
    assert theirs.n == 2 * size


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), list(range(101))),
        (pa.int8(), list(range(101))),
        (pa.date32(), list(range(101))),
        (pa.timestamp("ns", "UTC"), list(range(101))),
        (pa.decimal128(10, 2), list(range(101))),
    ],
)
def test_quantiles_have_the_type_of_the_values(kind: pa.DataType, values: list[int]) -> None:
    array = pa.array(values, kind)
    sketch = Quantiles(kind, (0.5,))
    assert sketch.finish(take_in(sketch, array)) == array.slice(50, 1)
    nothing = Quantiles(kind, (0.5, 0.9), many=True)
    assert nothing.finish(take_in(nothing, pa.nulls(3, kind))).to_pylist() == [None]


def test_a_better_accuracy_has_a_larger_k() -> None:
    assert k_for(75) == pytest.approx(300, abs=60)
    assert k_for(10_000) == 4096
    assert k_for(1) == 8


KINDS = (pa.int64(), pa.string(), pa.float64(), pa.decimal128(20, 1))


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *itertools.product(KINDS, (0, 1, 10, 1_000)),
        *(pytest.param(kind, 5_000, marks=pytest.mark.slow) for kind in KINDS),
        # The type counts only until a value is hashed.
        *(pytest.param(kind, 60_000, marks=pytest.mark.slow) for kind in KINDS[:2]),
    ],
)
def test_distinct_values_are_counted_within_the_error(kind: pa.DataType, size: int) -> None:
    values = pa.array(np.arange(size)).cast(kind)
    values = pa.concat_arrays([values, values.slice(0, size // 2), pa.nulls(2, kind)])
    sketch = Cardinality()
    (estimate,) = sketch.finish(take_in(sketch, values)).to_pylist()
    assert abs(estimate - size) <= 4 * 0.0163 * size


def test_merged_registers_equal_those_of_the_whole() -> None:
    values = pa.array(np.arange(50_000) % 9_000)
    sketch = Cardinality()
    pieces = [take_in(sketch, values.slice(n * 5_000, 5_000)) for n in range(10)]
    parts = [pa.concat_arrays(column) for column in zip(*pieces, strict=True)]
    merged = merge(sketch, parts)
    backwards = values.take(pa.array(range(49_999, -1, -1)))
    assert merged == take_in(sketch, values) == take_in(sketch, backwards)


def test_zero_has_no_sign_when_counting() -> None:
    sketch = Cardinality()
    parts = take_in(sketch, pa.array([0.0, -0.0, float("nan"), float("nan")]))
    assert sketch.finish(parts).to_pylist() == [2]


def test_p_follows_the_error_asked_for() -> None:
    assert p_for(0.05) == 9
    assert p_for(0.0001) == 16
