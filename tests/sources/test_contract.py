"""Every source keeps the contract of sources; and `check_source` finds those that don't."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.found_files import Clock, put
from trimtab.sources.files import Files
from trimtab.sources.rate import Rate
from trimtab.sources.source import UNDECODED, Partition, Range, Rows, Source
from trimtab.state.files import Folder
from trimtab.testing import BrokenLawError, check_source


def paced(_: Path) -> Source:
    return Rate(1000, partitions=2, clock=Sweeping())


class Sweeping:
    """A clock on which each look takes ten seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 10
        return self.now_s


def parquet_files(root: Path) -> Source:
    for number in range(12):
        table = pa.table(
            {"k": range(number), "v": [number / 3] * number}, pa.schema({"k": pa.int64(), "v": pa.float64()})
        )
        put(root / "in" / ("north", "south")[number % 2] / f"{number}.parquet", table, modified_s=number // 3)
    files = Files(str(root / "in"), partitions=["north", "south", "west"], clock=Clock())
    return files.opened(Folder(str(root / "log")))


def csv_files(root: Path) -> Source:
    """Files with bad lines, a damaged one, an empty one and one of a header only."""
    for number in range(6):
        lines = [f"{row}, {row}x" if row % 5 == number else f"{row},{row / 4}" for row in range(10 * number)]
        put(root / "in" / f"{number}.csv", "\n".join(["k,v", *lines]).encode(), modified_s=number)
    put(root / "in" / "damaged.csv", b"\xff\xfe", modified_s=2.5)
    put(root / "in" / "empty.csv", b"", modified_s=3.5)
    files = Files(str(root / "in"), format="csv", schema="k BIGINT, v DOUBLE", clock=Clock(), start="latest")
    return files.opened(Folder(str(root / "log")))


def json_files(root: Path) -> Source:
    for number in range(6):
        lines = ["{" if row % 7 == 3 else f'{{"k": {row}, "v": {row / 4}}}' for row in range(10 * number)]
        put(root / "in" / f"{number}.json", "\n".join(lines).encode(), modified_s=number)
    files = Files(str(root / "in"), format="json", schema="k BIGINT, v DOUBLE", clock=Clock())
    return files.opened(Folder(str(root / "log")))


def arrow_files(root: Path) -> Source:
    for number in range(40):
        put(root / "in" / f"{number}.arrow", pa.table({"k": pa.array(range(number), pa.int64())}), modified_s=number)
    files = Files(str(root / "in"), format="arrow", schema="k BIGINT, missing STRING", clock=Clock())
    return files.opened(Folder(str(root / "log")))


SOURCES: dict[str, Callable[[Path], Source]] = {
    "rate": paced,
    "bounded rate": lambda _: Rate(None, rows=5000, partitions=3, skew=1.2),
    "empty rate": lambda _: Rate(None, rows=0),
    "parquet files": parquet_files,
    "csv files": csv_files,
    "json files": json_files,
    "arrow files": arrow_files,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_keeps_the_contract(name: str, tmp_path: Path) -> None:
    check_source(SOURCES[name](tmp_path))


# Sources that break it -------------------------------------------------------------------------

SCHEMA = pa.schema({"n": pa.int64()})


@dataclass
class Numbers:
    """A hundred numbers; each subclass breaks a rule."""

    earliest: int = 0
    ends: tuple[int, ...] = (100,)
    looks: int = 0

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self) -> Mapping[str, Partition]:
        return {"p": Partition(self.earliest, self.earliest)}

    def latest(self) -> Mapping[str, int]:
        self.looks += 1
        return {"p": self.ends[min(self.looks, len(self.ends)) - 1]}

    def read(self, part: Range) -> Rows:
        return Rows(pa.table({"n": range(part.start, part.end)}, schema=SCHEMA))


class Drawn(Numbers):
    def read(self, part: Range) -> Rows:
        return Rows(pa.table({"n": [random.random() * 1e9 // 1 for _ in range(part.start, part.end)]}, schema=SCHEMA))


class CutMatters(Numbers):
    def read(self, part: Range) -> Rows:
        return Rows(pa.table({"n": range(part.end - part.start)}, schema=SCHEMA))


class Greedy(Numbers):
    def read(self, part: Range) -> Rows:
        return Rows(pa.table({"n": range(part.start, part.end + 1)}, schema=SCHEMA))


class OtherTypes(Numbers):
    def read(self, part: Range) -> Rows:
        return Rows(pa.table({"n": pa.array(range(part.start, part.end), pa.int32())}))


class TooFewTimes(Numbers):
    def read(self, part: Range) -> Rows:
        return replace(super().read(part), appended_us=pa.array([], pa.int64()))


class TooFewPositions(Numbers):
    def read(self, part: Range) -> Rows:
        return replace(super().read(part), positions=pa.array([], pa.int64()))


class OtherPositions(Numbers):
    def read(self, part: Range) -> Rows:
        return replace(super().read(part), positions=pa.array(range(part.end - part.start), pa.int64()))


class Forgetful(Numbers):
    """A copy starts to count elsewhere."""

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return ShiftedNumbers, (self.earliest,)


class ShiftedNumbers(Numbers):
    def read(self, part: Range) -> Rows:
        return Rows(pa.table({"n": range(part.start + 1, part.end + 1)}, schema=SCHEMA))


class Unpicklable(Numbers):
    def __reduce__(self) -> str:
        raise TypeError("it holds a connection")


class Nameless(Numbers):
    def latest(self) -> Mapping[str, int]:
        return {}


class Misplaced(Numbers):
    def read(self, part: Range) -> Rows:
        wrong = pa.table(
            {"partition": ["q"], "position": [part.start], "value": [b""], "reason": [""]}, schema=UNDECODED
        )
        return replace(super().read(part), undecoded=wrong if part.end > part.start else None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Drawn(), "read a second time, its rows are others"),
        (CutMatters(), "read in two parts, cut at"),
        (Greedy(), "is empty, but has 1 rows"),
        (OtherTypes(), "the rows have the schema"),
        (TooFewTimes(), "0 times of appending, as int64, for 100 rows"),
        (TooFewPositions(), "0 positions, as int64, for 100 rows"),
        (OtherPositions(earliest=5), "positions of its rows don't ascend, or are outside of the range"),
        (Forgetful(), "read by a pickled copy"),
        (Unpicklable(), "it can't be pickled, .*TypeError: it holds a connection"),
        (Nameless(), r"latest\(\) has no end for partition 'p'"),
        (Misplaced(), "something of partition 'q'"),
        (Numbers(ends=(100, 99)), r"latest\(\) fell from 100 to 99"),
        (Numbers(earliest=101), "positions don't ascend: earliest 101, start 101, latest 100"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Numbers) else "",
)
def test_a_source_that_breaks_a_rule_is_found(source: Source, words: str) -> None:
    with pytest.raises(BrokenLawError, match=words):
        check_source(source)


def test_a_source_with_all_its_rules_passes_even_if_it_grows() -> None:
    check_source(Numbers(ends=(100, 120)))
    check_source(Numbers(ends=(0,)))
    check_source(Numbers(), reads=0)
