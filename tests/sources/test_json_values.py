"""Values in JSON: what becomes of good ones, and that bad ones are found, alone and among others."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import JobError
from trimtab.rowwise.ddl import parse_columns
from trimtab.sources.json_values import JsonValues
from trimtab.sources.values import Decoded

K = pa.schema({"k": pa.int64()})
GOOD = (b'{"k": 1}', b' {"k":\n2}\r\n', b'{"k": 3, "more": {"k": [4]}}', b"{}", b'{"k": null}')
BAD = {
    b"": "it isn't a JSON object",
    b"  ": "it isn't a JSON object",
    b"\n": "it isn't a JSON object",
    b"7": "it isn't a JSON object",
    b"null": "it isn't a JSON object",
    b'[{"k": 1}]': "it isn't a JSON object",
    b'{"k": 1': "it isn't a JSON object",
    b"2}": "it isn't a JSON object",
    b'{"k": 1} {"k": 2}': "it is more than one JSON object",
    b'{"k": 1}\n{"k": 2}': "it is more than one JSON object",
    b'{"more": {"k": 1}': "Missing a comma or '}' after an object member.",
    b'{"k": "}': "Missing a closing quotation mark in string.",
    b'{"more": "a\nb"}': "Invalid encoding in string.",
    b'{"k": 1, "k": 2}': "Column(/k) was specified twice",
    b'{"k": "1"}': "Column(/k) changed from number to string",
    b'{"k": 1.0}': "Failed to convert JSON to int64, couldn't parse:1.0",
    b'{"k": 1}\0}': "The document is empty.",
    b'{"more": "\xff"}': "it isn't text in UTF-8",
}


def decode(columns: str, *values: str) -> Decoded:
    return JsonValues(parse_columns(columns, zone="UTC")).decode(pa.array([value.encode() for value in values]))


@pytest.mark.parametrize("value", BAD)
def test_a_bad_value_is_found_and_its_reason_given(value: bytes) -> None:
    assert JsonValues(K).decode(pa.array([value])) == Decoded(K.empty_table(), {0: BAD[value]})


@given(st.lists(st.sampled_from([*GOOD, *BAD]), max_size=30))
def test_what_becomes_of_a_value_does_not_depend_on_those_beside_it(values: list[bytes]) -> None:
    decoder = JsonValues(K)
    alone = [decoder.decode(pa.array([value])) for value in values]
    together = decoder.decode(pa.array(values, pa.binary()))
    assert together.table.to_pylist() == [row for each in alone for row in each.table.to_pylist()]
    assert together.reasons == {place: each.reasons[0] for place, each in enumerate(alone) if each.reasons}


@given(st.lists(st.fixed_dictionaries({"k": st.none() | st.integers(-(2**63), 2**63 - 1)}), max_size=30), st.data())
def test_objects_come_back_however_they_are_laid_out(rows: list[dict[str, int | None]], data: st.DataObject) -> None:
    indent = data.draw(st.sampled_from([None, 0, 2]))
    values = [json.dumps(row, indent=indent).encode() for row in rows]
    decoded = JsonValues(K).decode(pa.array(values, pa.binary()))
    assert decoded == Decoded(pa.Table.from_pylist(rows, schema=K))


def test_columns_may_have_any_type_that_json_has() -> None:
    row = (
        '{"a": true, "b": 1, "c": 1.5, "d": 12.34, "e": "x", "f": "2030-01-02", "g": ["y"], "h": {"i": 2}, '
        '"j": "2030-01-01T00:00:00"}'
    )
    columns = (
        "a BOOLEAN, b TINYINT, c FLOAT, d DECIMAL(6, 2), e STRING, f DATE, g ARRAY<STRING>, h STRUCT<i: INT>, "
        "j TIMESTAMP_NTZ"
    )
    [found] = decode(columns, row).table.to_pylist()
    assert found == {
        "a": True,
        "b": 1,
        "c": 1.5,
        "d": Decimal("12.34"),
        "e": "x",
        "f": date(2030, 1, 2),
        "g": ["y"],
        "h": {"i": 2},
        "j": datetime(2030, 1, 1),
    }


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ('"2030-01-01T12:00:00Z"', datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ('"2030-01-01 12:00:00"', datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ('"2030-01-01"', datetime(2030, 1, 1, tzinfo=UTC)),
        ('"2030-01-01T12:00:00.25+02:00"', datetime(2030, 1, 1, 10, 0, 0, 250_000, UTC)),
        ('"2030-01-01T12:00:00.123456789Z"', datetime(2030, 1, 1, 12, 0, 0, 123_456, UTC)),
        ("1893499200", datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ("-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("null", None),
    ],
)
def test_a_time_is_text_in_iso_8601_or_seconds(text: str, time: datetime | None) -> None:
    others = ('{"ts": "2000-01-01T00:00:00.1Z"}', '{"ts": 0}', '{"ts": "1999-01-01T00:00:00.1234567"}', '{"ts": null}')
    for values in ([text], [text, *others], [*others, text]):
        rows = [value if value in others else f'{{"ts": {value}}}' for value in values]
        decoded = decode("ts TIMESTAMP", *rows)
        assert not decoded.reasons
        assert decoded.table["ts"].to_pylist()[values.index(text)] == time


@pytest.mark.parametrize("text", ['"soon"', "1.5", "true", '"2030-13-01"', "99999999999999999", "{}"])
def test_other_times_are_no_times(text: str) -> None:
    assert list(decode("ts TIMESTAMP", '{"ts": 1}', f'{{"ts": {text}}}').reasons) == [1]


@pytest.mark.parametrize("columns", ["a BINARY", "a ARRAY<BINARY>", "a STRUCT<b: DATE>"])
def test_columns_that_json_has_not_are_refused_at_once(columns: str) -> None:
    with pytest.raises(JobError, match=r"column a is .*: JSON has no") as caught:
        decode(columns)
    assert caught.value.code == "source.schema"


def test_a_decoder_is_pickled_with_its_source() -> None:
    assert pickle.loads(pickle.dumps(JsonValues(K))) == JsonValues(K)
