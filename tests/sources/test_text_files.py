"""CSV and JSON: a bad line is alone, whatever it does to the parser, and its place in the file is known."""

from __future__ import annotations

import gzip
import random
from typing import Any

import pyarrow as pa
import pytest

from trimtab.sources.file_content import Bad
from trimtab.sources.file_rows import rows_of

SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string()})


def read(format: str, data: bytes, schema: pa.Schema = SCHEMA) -> tuple[list[tuple[Any, ...]], list[Bad]]:
    table, bad = rows_of(pa.BufferReader(data), format, schema)
    assert table.schema == schema
    return [tuple(row.values()) for row in table.to_pylist()], bad


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"k,s\n", []),
        (b"k,s", []),
        (b"k,s\n1,a", [(1, "a")]),
        (b"\xef\xbb\xbfk,s\r\n1,a\r\n\r\n2,\r\n", [(1, "a"), (2, None)]),
        (b"\n\ns,x,k\n\"a,\"\"b\",z,1\n\"\",z,\n", [(1, 'a,"b'), (None, "")]),
        (b"k\n 5 \n", [(5, None)]),
        (b's,k\n5" disk,1\n', [(1, '5" disk')]),
        ("k,s\n1,Grüße\n".encode(), [(1, "Grüße")]),
    ],
)  # fmt: skip
def test_csv_is_read(data: bytes, rows: list[tuple[Any, ...]]) -> None:
    assert read("csv", data) == (rows, [])


def test_lines_of_csv_that_are_wrong_are_alone() -> None:
    data = b'k,s\n1,a\n\n2\n3,"open\n4,d\n5,e,f\nsix,g\n7,\xff\n8,"h"\n'
    rows, bad = read("csv", data)
    assert rows == [(1, "a"), (4, "d"), (8, "h")]
    assert bad == [
        Bad(4, b"2", "it doesn't have 2 fields"),
        Bad(5, b'3,"open', "a quote isn't closed"),
        Bad(7, b"5,e,f", "it doesn't have 2 fields"),
        Bad(8, b"six,g", "k: 'six' is no int64"),
        Bad(9, b"7,\xff", "s: '\\\\xff' is no string"),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"1,a\n2,b\n", "no csv file: it has none of the columns k, s, but 1, a"),
        (b"k,k\n1,2\n", "no csv file: it has several columns k"),
        (b"\xff\xfe\n", "no csv file: its first line can't be read: "),
    ],
)
def test_a_csv_file_without_a_usable_header_is_bad_as_a_whole(data: bytes, reason: str) -> None:
    rows, [bad] = read("csv", data)
    assert rows == []
    assert (bad.line, bad.value) == (0, data)
    assert bad.reason.startswith(reason)


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"", []),
        (b"\n", []),
        (b'{"k": 1, "s": "a"}', [(1, "a")]),
        (b'{"s": "b", "x": [1]}\r\n\r\n{"k": null}\n', [(None, "b"), (None, None)]),
        (b'{}\n', [(None, None)]),
        (b'{"s": "\\u00e9\\n"}\n', [(None, "é\n")]),
    ],
)  # fmt: skip
def test_json_is_read(data: bytes, rows: list[tuple[Any, ...]]) -> None:
    assert read("json", data) == (rows, [])


def test_lines_of_json_that_are_wrong_are_alone() -> None:
    data = b'{"k": 1}\n{"k": \n\n{"k": 2}\n5\n{"k": 3}{"k": 4}\n{"k": "x"}\n{"k": 5, "s": "\xff"}\n{"k": 6}\n'
    rows, bad = read("json", data)
    assert rows == [(1, None), (2, None), (6, None)]
    assert [(each.line, each.value) for each in bad] == [
        (2, b'{"k": '),
        (5, b"5"),
        (6, b'{"k": 3}{"k": 4}'),
        (7, b'{"k": "x"}'),
        (8, b'{"k": 5, "s": "\xff"}'),
    ]
    assert all(each.reason for each in bad)


def test_json_has_times_and_decimals() -> None:
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "d": pa.date32(), "n": pa.decimal128(9, 2), "b": pa.bool_()})
    data = b'{"ts": "2024-01-02T00:00:00Z", "d": "2024-01-02", "n": 1.5, "b": true}\n{"ts": 17}\n{"ts": "soon"}\n'
    rows, bad = read("json", data, schema)
    assert [str(value) for value in rows[0]] == ["2024-01-02 00:00:00+00:00", "2024-01-02", "1.50", "True"]
    assert [each.line for each in bad] == [2, 3]


def test_compressed_texts_are_read_and_damaged_ones_are_bad_as_a_whole() -> None:
    data = b"k,s\n" + b"".join(b"%d,a\n" % n for n in range(100))
    rows = [(n, "a") for n in range(100)]
    assert read("csv", gzip.compress(data)) == (rows, [])
    assert read("csv", gzip.compress(data[:50]) + gzip.compress(data[50:])) == (rows, [])
    assert read("csv", pa.Codec("zstd").compress(data, asbytes=True)) == (rows, [])
    damaged = gzip.compress(data)[:-30]
    found, [bad] = read("csv", damaged)
    assert (found, bad.line, bad.value) == ([], 0, damaged)


def test_texts_in_structs_of_json_are_utf_8() -> None:
    schema = pa.schema({"a": pa.list_(pa.string())})
    rows, bad = read("json", b'{"a": ["x"]}\n{"a": ["\xff"]}\n{"a": null}\n', schema)
    assert rows == [(["x"],), (None,)]
    assert [each.line for each in bad] == [2]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_however_bad_lines_lie_good_ones_are_all_there(format: str) -> None:
    dice = random.Random(3)
    good = {"csv": '{n},"v,{n}"', "json": '{{"k": {n}, "s": "v,{n}"}}'}[format]
    bad = {"csv": ['x,"', '"', "a,b,c", "", "q,r"], "json": ["{", '"', "[]", "", '{"k": {}}', "}{"]}[format]
    for _ in range(30):
        kinds = [dice.random() < 0.8 for _ in range(dice.randrange(40))]
        lines = [good.format(n=n) if kind else dice.choice(bad) for n, kind in enumerate(kinds)]
        header = ["k,s"] if format == "csv" else []
        rows, lost = read(format, "\n".join([*header, *lines]).encode())
        assert rows == [(n, f"v,{n}") for n, kind in enumerate(kinds) if kind]
        expected = [n + 1 + len(header) for n, kind in enumerate(kinds) if not kind and lines[n]]
        assert [each.line for each in lost] == expected
        assert all(each.value.decode() == lines[each.line - 1 - len(header)] for each in lost)
