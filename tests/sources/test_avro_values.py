"""Values in Avro: plain and with Confluent's header, good and bad."""

from __future__ import annotations

import io
import json
import pickle
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from trimtab.errors import JobError
from trimtab.sources.avro_values import AvroValues

FIELDS: dict[str, Any] = {
    "id": ["null", "long"],
    "name": "string",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "day": {"type": "int", "logicalType": "date"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "who": {"type": "string", "logicalType": "uuid"},
    "side": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]},
    "other": "Side",
    "tags": {"type": "map", "values": {"type": "array", "items": "int"}},
    "place": ["null", {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]}],
}
ROW = {
    "id": None,
    "name": "first",
    "at": datetime(2030, 1, 1, tzinfo=UTC),
    "day": date(2030, 1, 1),
    "price": Decimal("1.25"),
    "who": str(uuid.UUID(int=7)),
    "side": "BUY",
    "other": "SELL",
    "tags": {"a": [1, 2]},
    "place": {"x": 0.5},
}
AS_ARROW = {**ROW, "tags": [("a", [1, 2])]}
HEADER = b"\0\0\0\0\7"


def schema_of(fields: dict[str, Any]) -> str:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Row", "fields": named})


def encoded(row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, json.loads(schema_of(FIELDS)), row)
    return stream.getvalue()


def test_values_are_decoded_with_and_without_a_header() -> None:
    values = [encoded(ROW), HEADER + encoded(ROW), encoded({**ROW, "id": 5})]
    decoded = pickle.loads(pickle.dumps(AvroValues(schema_of(FIELDS)))).decode(pa.array(values))
    assert decoded.table.to_pylist() == [AS_ARROW, AS_ARROW, {**AS_ARROW, "id": 5}]
    assert not decoded.reasons


def test_bad_values_are_found_among_good_ones() -> None:
    good = encoded(ROW)
    decoded = AvroValues(schema_of(FIELDS)).decode(pa.array([b"", good, good[:-1], good + b"x", HEADER, good]))
    assert decoded.table.to_pylist() == [AS_ARROW, AS_ARROW]
    assert list(decoded.reasons) == [0, 2, 3, 4]
    assert decoded.reasons[3] == "it isn't of the Avro schema: 1 bytes are left over"


def test_a_decoder_that_was_used_can_be_pickled() -> None:
    decoder = AvroValues(schema_of(FIELDS))
    decoder.decode(pa.array([encoded(ROW)]))
    assert pickle.loads(pickle.dumps(decoder)).schema == decoder.schema


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("ts TIMESTAMP", "the text isn't an Avro schema"),
        ('"string"', "it isn't a record"),
        (schema_of({"a": ["int", "string"]}), "field a of the Avro schema is a union of 2 types"),
        (schema_of({"a": "Unknown"}), "field a of the Avro schema is Unknown"),
    ],
)
def test_what_is_no_schema_is_refused_at_once(text: str, wrong: str) -> None:
    with pytest.raises(JobError, match=wrong) as caught:
        AvroValues(text)
    assert caught.value.code == "source.schema"
