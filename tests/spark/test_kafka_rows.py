"""Rows as messages of Kafka: what the values and keys of all types are."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trimtab.sources.json_values import JsonValues
from trimtab.spark.kafka_rows import messages_of

NOON = datetime.datetime(2030, 1, 1, 12, 0, 0, 500_000)
UTC_NOON = NOON.replace(tzinfo=datetime.UTC)
ZONED = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (pa.int64(), 7, "7"),
        (pa.bool_(), True, "true"),
        (pa.float64(), 1.5, "1.5"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.decimal128(38, 2), Decimal("123456789012345678901234567890.10"), "123456789012345678901234567890.10"),
        (pa.string(), 'a "quote"\n', r'"a \"quote\"\n"'),
        (pa.binary(), b"\xff\x00", '"/wA="'),
        (pa.date32(), NOON.date(), '"2030-01-01"'),
        (ZONED, UTC_NOON, '"2030-01-01T12:00:00.500000Z"'),
        (pa.timestamp("ns"), NOON, '"2030-01-01T12:00:00.500000"'),
        (pa.list_(ZONED), [UTC_NOON, None], '["2030-01-01T12:00:00.500000Z",null]'),
        (pa.list_(pa.list_(pa.int32())), [[1], [], None], "[[1],[],null]"),
        (pa.struct({"a": pa.int64(), "b": pa.list_(pa.float64())}), {"a": None, "b": [0.5]}, '{"a":null,"b":[0.5]}'),
        (pa.map_(pa.string(), ZONED), [("k", UTC_NOON)], '{"k":"2030-01-01T12:00:00.500000Z"}'),
        (pa.null(), None, "null"),
    ],
)
def test_a_value_is_the_json_of_the_columns_and_nulls_are_kept(type_: pa.DataType, value: Any, text: str) -> None:
    found = messages_of(pa.table({"x": pa.array([value, None], type_)}))
    assert found.values == [f'{{"x":{text}}}', '{"x":null}']
    assert found.keys == [None, None]
    json.loads(str(found.values[0]))


def test_names_of_columns_may_be_anything_and_differ_in_case_only() -> None:
    odd = "it's \"odd\", isn't it"
    found = messages_of(pa.table({odd: [1], "a": [2], "A": [3]}), "A")
    assert json.loads(str(found.values[0])) == {odd: 1, "a": 2, "A": 3}
    assert found.keys == ["3"]


def test_a_column_value_alone_or_with_the_key_is_the_message_as_it_is() -> None:
    texts = pa.table({"value": ["a", None]})
    assert messages_of(texts).values == ["a", None]
    both = pa.table({"k": [1, 2], "value": [b"\xff", b""]})
    assert messages_of(both, "k").values == [b"\xff", b""]
    assert messages_of(both).values == ['{"k":1,"value":"/w=="}', '{"k":2,"value":""}']
    assert messages_of(pa.table({"value": [1]})).values == ['{"value":1}']


@pytest.mark.parametrize(
    ("type_", "value", "key"),
    [
        (pa.string(), '"a"', '"a"'),
        (pa.binary(), b"\xff", b"\xff"),
        (pa.int64(), 7, "7"),
        (ZONED, UTC_NOON, "2030-01-01T12:00:00.500000Z"),
        (pa.date32(), NOON.date(), "2030-01-01"),
        (pa.list_(pa.string()), ["a"], '["a"]'),
    ],
)
def test_a_key_is_the_text_of_its_column(type_: pa.DataType, value: Any, key: Any) -> None:
    assert messages_of(pa.table({"k": pa.array([value, None], type_), "x": [1, 2]}), "k").keys == [key, None]


def test_the_kafka_source_reads_what_the_sink_writes() -> None:
    schema = pa.schema({"ts": ZONED, "k": pa.int64(), "price": pa.decimal128(10, 2), "day": pa.date32()})
    rows = pa.table([[UTC_NOON, None], [1, 2], [Decimal("1.10"), None], [NOON.date(), None]], schema=schema)
    values = pa.array([str(value).encode() for value in messages_of(rows).values])
    decoded = JsonValues(schema).decode(values)
    assert not decoded.reasons
    assert decoded.table.equals(rows)
