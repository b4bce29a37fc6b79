"""Hashes over Arrow columns: as Spark has them, in any layout, with machine code and without."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import xxhash

from tests.support.typed_values import FLAT, NESTED, column_of
from trimtab.machine_code.kernel import Kernel
from trimtab.machine_code.missing import Missing, if_missing, take_notes
from trimtab.worker.json_text import json_texts
from trimtab.worker.row_hash import arrival_hash, has_columnar_hash, key_hash

GOLDEN: dict[str, tuple[Any, pa.DataType, int, int]] = {
    "true": (True, pa.bool_(), -6698625589789238999, -6698625589789238999),
    "a byte": (-128, pa.int8(), 4160238337661960656, 4160238337661960656),
    "a short": (32767, pa.int16(), 8952525448871805501, 8952525448871805501),
    "an int": (-1, pa.int32(), 2017008487422258757, 2017008487422258757),
    "a long": (1 << 62, pa.int64(), 8973626371093010265, 8973626371093010265),
    "a float": (1.5, pa.float32(), 6163473420726370430, 6163473420726370430),
    "a double": (-2.25, pa.float64(), -8344676507314498009, -8344676507314498009),
    "minus zero": (-0.0, pa.float64(), -5252525462095825812, -5252525462095825812),
    "a short decimal": (Decimal("-12.34"), pa.decimal128(18, 2), -1614697014534150208, -1614697014534150208),
    "a long decimal": (Decimal("-12.34"), pa.decimal128(19, 2), -5902959860576184235, -5902959860576184235),
    "no text": ("", pa.string(), -7444071767201028348, -7444071767201028348),
    "a text": ("zig-zag é漢", pa.string(), -7968618997122342482, -7968618997122342482),
    "a long text": ("0123456789" * 5, pa.string(), 2204704844722086602, 2204704844722086602),
    "bytes": (b"\x00\xff", pa.binary(), 879945414100663330, 879945414100663330),
    "a date": (dt.date(1969, 7, 20), pa.date32(), 4358245511639172990, 4358245511639172990),
    "a time": (dt.datetime(2026, 1, 2, 3, 4, 5, 6), pa.timestamp("us"), -3277820007983118719, -3277820007983118719),
    "a length of time": (
        dt.timedelta(days=-1, microseconds=1),
        pa.duration("us"),
        -7709105386179979520,
        -7709105386179979520,
    ),
    "null": (None, pa.int64(), 42, -6698625589789239037),
    "a list": ([1, None, 3], pa.list_(pa.int32()), -3383274367486667931, 6832877667379038087),
    "a struct": (
        {"a": 'x"', "b": Decimal("0")},
        pa.struct({"a": pa.string(), "b": pa.decimal128(20, 9)}),
        3048660567390196406,
        -8177586587307283839,
    ),
    "a map": ([("k", 5), ("l", None)], pa.map_(pa.string(), pa.int64()), 42, -4229230687871491643),
    "a list of times": (
        [dt.datetime(2026, 1, 2, 0, 0)],
        pa.list_(pa.timestamp("us")),
        73200828265043680,
        -4373684473963768428,
    ),
}
"""A value and its type, and its hashes as Spark gave them: as a key, and as an arrival."""


def hashed(*values: bytes) -> int:
    """The chain of hashes by the library."""
    seed = 42
    for value in values:
        seed = xxhash.xxh64_intdigest(value, seed)
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def little(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little", signed=True)


@pytest.mark.parametrize("name", GOLDEN)
def test_hashes_are_those_of_spark(name: str) -> None:
    value, kind, key, arrival = GOLDEN[name]
    column = pa.array([value], kind)
    assert (key_hash([column], 1).item(), arrival_hash({"v": column}, 1).item()) == (key, arrival)


@pytest.mark.parametrize("form", ["machine code", "plain Python", "until there is machine code"])
def test_the_forms_of_the_kernels_agree_with_the_library(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "plain Python":
        monkeypatch.setattr(Kernel, "__call__", Kernel.plain)
    elif form != "machine code":
        monkeypatch.setattr("trimtab.engine.columns.kernels.is_numba_there", lambda: False)
    texts = [random.Random(n).randbytes(n) for n in range(80)]
    numbers = [(-1) ** n * 3**n % (1 << 62) for n in range(80)]
    short = [number % 1000 - 500 for number in numbers]
    columns = [pa.array(texts), pa.array(numbers), pa.array(short, pa.int16())]
    with if_missing(Missing.COMPILE if form == "machine code" else Missing.PLAIN):
        found = key_hash(columns, 80).tolist()
    rows = zip(texts, numbers, short, strict=True)
    assert found == [hashed(text, little(number, 8), little(few, 4)) for text, number, few in rows]
    assert form != "until there is machine code" or len(take_notes()) >= 3


def test_a_null_leaves_the_hash_as_it_is_and_shows_only_in_that_of_the_arrival() -> None:
    left = [pa.array([5, None]), pa.array([None, 5])]
    assert len(set(key_hash(left, 2).tolist())) == 1
    assert len(set(arrival_hash({"a": left[0], "b": left[1]}, 2).tolist())) == 2


def test_there_is_one_zero_and_one_nan() -> None:
    for kind in (pa.float32(), pa.float64()):
        zeros = pa.array([0.0, -0.0], kind)
        assert len(set(key_hash([zeros], 2).tolist())) == 1
    assert key_hash([pa.array([-0.0])], 1).item() == hashed(bytes(8))


def test_rows_without_columns_have_the_seed_as_their_hash() -> None:
    assert key_hash([], 2).tolist() == arrival_hash({}, 2).tolist() == [42, 42]
    assert key_hash([pa.array([None, None])], 2).tolist() == [42, 42]


@pytest.mark.parametrize("name", FLAT | NESTED)
def test_slices_chunks_and_dictionaries_change_nothing(name: str) -> None:
    kind = (FLAT | NESTED)[name]
    column = column_of(kind, 40, random.Random(name))
    right = arrival_hash({"v": column}, 40)
    assert arrival_hash({"v": column.slice(7, 20)}, 20).tolist() == right[7:27].tolist()
    assert arrival_hash({"v": pa.chunked_array([column.slice(0, 9), column.slice(9)])}, 40).tolist() == right.tolist()
    assert arrival_hash({"v": column.slice(3, 0)}, 0).tolist() == []
    if name in FLAT:
        assert arrival_hash({"v": column.dictionary_encode()}, 40).tolist() == right.tolist()


@pytest.mark.parametrize(
    ("kind", "like"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.string()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.duration("s"), pa.duration("us")),
        (pa.date64(), pa.date32()),
        (pa.decimal256(20, 2), pa.decimal128(20, 2)),
        (pa.large_list(pa.int32()), pa.list_(pa.int32())),
        (pa.list_(pa.int32(), 2), pa.list_(pa.int32())),
    ],
    ids=str,
)
def test_other_layouts_of_the_same_values_have_the_same_hash(kind: pa.DataType, like: pa.DataType) -> None:
    examples: dict[pa.DataType, list[Any]] = {
        pa.string(): ["", "one", None, "x" * 40],
        pa.timestamp("us"): [dt.datetime(1969, 12, 31, 23), None, dt.datetime(2026, 1, 1)],
        pa.duration("us"): [dt.timedelta(days=-3), None, dt.timedelta(seconds=1)],
        pa.date32(): [dt.date(1969, 12, 31), None],
        pa.decimal128(20, 2): [Decimal("-1.25"), None],
        pa.list_(pa.int32()): [[1, 2], None, [None, 3]],
    }
    column = pa.array(examples[like], like)
    assert key_hash([column.cast(kind)], len(column)).tolist() == key_hash([column], len(column)).tolist()


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint8(),
        pa.float16(),
        pa.time64("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.list_(pa.float64()),
        pa.struct({"at": pa.timestamp("us", "UTC")}),
        pa.map_(pa.date32(), pa.int64()),
        pa.list_(pa.uint16()),
    ],
    ids=str,
)
def test_types_whose_hash_is_up_to_the_jvm_are_known(kind: pa.DataType) -> None:
    assert not has_columnar_hash(kind)


def test_texts_are_those_of_to_json() -> None:
    kind = pa.struct(
        {"n": pa.int8(), "d": pa.decimal128(20, 9), "i": pa.duration("us"), "m": pa.map_(pa.int32(), pa.bool_())}
    )
    whole = {"n": 1, "d": Decimal(0), "i": dt.timedelta(hours=-25), "m": [(1, True), (2, None)]}
    column = pa.array([whole, None, dict.fromkeys(whole)], kind)
    assert json_texts(column) == [
        """{"n":1,"d":0E-9,"i":"INTERVAL '-1 01:00:00' DAY TO SECOND","m":{"1":true,"2":null}}""",
        "null",
        '{"n":null,"d":null,"i":null,"m":null}',
    ]


def test_years_of_more_than_four_digits_and_before_the_first_are_written_as_in_java() -> None:
    days = pa.array([-719529, -719163, -800000, 2932897, 40000000], pa.int32()).cast(pa.date32())
    shown = ["-0001-12-31", "0000-12-31", "-0221-09-04", "+10000-01-01", "+111486-04-13"]
    assert json_texts(days) == [f'"{day}"' for day in shown]
