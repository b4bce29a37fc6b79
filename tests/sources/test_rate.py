"""Rate: every row is a pure function of seed, partition and position, and the clock only says how many there are."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from trimtab.errors import JobError
from trimtab.sources.files import Files
from trimtab.sources.rate import Rate
from trimtab.sources.source import Range, Remembering, rows_each
from trimtab.state.files import Folder


class Clock:
    def __init__(self, now_s: float = 1e9) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def test_rows_appear_with_the_clock_over_all_partitions() -> None:
    clock = Clock()
    source = Rate(10, partitions=2, clock=clock)
    assert source.latest() == {"0": 0, "1": 0}
    clock.now_s += 3
    assert source.latest() == {"0": 15, "1": 15}
    clock.now_s -= 100
    assert source.latest() == {"0": 15, "1": 15}, "a clock that is set back takes no rows away"


def test_it_has_all_its_rows_whatever_the_clock_says() -> None:
    source = Rate(10, partitions=2, rows=5, clock=Clock())
    assert (source.latest(), source.real_ends()) == ({"0": 0, "1": 0}, {"0": 3, "1": 2})
    assert Rate(10).real_ends()["0"] > 10**15


def test_its_positions_are_rows_before_any_are_read() -> None:
    """So the first batch takes as many as it may, though the source remembers something, as those of files do."""
    assert isinstance(Rate(10), Remembering)
    assert rows_each(Rate(10)) == 1
    assert rows_each(Files("somewhere", schema="k BIGINT")) == math.inf


def test_a_bounded_source_ends() -> None:
    clock = Clock()
    source = Rate(100, partitions=3, rows=8, clock=clock)
    clock.now_s += 60
    assert source.latest() == {"0": 3, "1": 3, "2": 2}
    assert Rate(None, partitions=3, rows=8).latest() == {"0": 3, "1": 3, "2": 2}


def test_times_follow_positions_and_the_time_of_appending_follows_the_clock() -> None:
    start = datetime.datetime(2024, 2, 3, tzinfo=datetime.UTC)
    source = Rate(4, start=start, clock=Clock(1e9))
    rows = source.read(Range("0", 4, 6))
    assert rows.table["ts"].to_pylist() == [start + datetime.timedelta(seconds=s) for s in (1, 1.25)]
    assert rows.table["n"].to_pylist() == [4, 5]
    assert rows.appended_us is not None
    assert rows.appended_us.to_pylist() == [1_000_000_001_000_000, 1_000_000_001_250_000]
    assert Rate(None, rows=10).read(Range("0", 4, 6)).appended_us is None


def test_seeds_and_partitions_have_other_rows_and_columns_are_independent() -> None:
    def values(seed: int, partition: str) -> list[float]:
        source = Rate(None, rows=2000, partitions=2, seed=seed)
        found: list[float] = source.read(Range(partition, 0, 1000)).table["x"].to_pylist()
        return found

    assert values(0, "0") == values(0, "0")
    assert len({tuple(values(seed, name)) for seed in (0, 1, -1) for name in ("0", "1")}) == 6
    table = Rate(None, rows=10_000, keys=100).read(Range("0", 0, 10_000)).table
    k, x = table["k"].to_numpy(), table["x"].to_numpy()
    assert abs(np.corrcoef(k, x)[0, 1]) < 0.05
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 0.05
    assert 0 <= x.min() <= x.max() < 1
    assert abs(x.mean() - 0.5) < 0.02


def test_keys_are_even_or_follow_zipfs_law() -> None:
    def counts(skew: float) -> list[int]:
        table = Rate(None, rows=60_000, keys=3, skew=skew).read(Range("0", 0, 60_000)).table
        found: list[int] = np.bincount(table["k"].to_numpy(), minlength=3).tolist()
        return found

    assert counts(0) == pytest.approx([20_000] * 3, rel=0.03)
    assert counts(1) == pytest.approx([60_000 * 6 / 11, 60_000 * 3 / 11, 60_000 * 2 / 11], rel=0.03)


def test_a_job_that_starts_again_goes_on_from_when_it_began(tmp_path: Path) -> None:
    first, second = Clock(1000.0), Clock(1060.0)
    Rate(1, clock=first).opened(Folder(str(tmp_path)))
    assert Rate(1, clock=second).latest() == {"0": 0}
    assert Rate(1, clock=second).opened(Folder(str(tmp_path))).latest() == {"0": 60}


def test_far_positions_have_exact_numbers() -> None:
    table = Rate(1e6).read(Range("0", 1 << 50, (1 << 50) + 2)).table
    assert table["n"].to_pylist() == [1 << 50, (1 << 50) + 1]
    assert table["ts"].cast(pa.int64()).to_numpy()[1] - table["ts"].cast(pa.int64()).to_numpy()[0] == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Rate(None), "rows=1000"),
        (lambda: Rate(0), "a number above 0"),
        (lambda: Rate(1, keys=0), "keys=0"),
        (lambda: Rate(1, partitions=0), "partitions=0"),
        (lambda: Rate(1, skew=-1), "skew=-1"),
    ],
)
def test_values_without_sense_are_refused(make: Callable[[], Rate], words: str) -> None:
    with pytest.raises(JobError, match=words):
        make()
