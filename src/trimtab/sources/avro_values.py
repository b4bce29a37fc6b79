"""Values in Avro's binary encoding, without a file's header, by the package fastavro.

The header of Confluent's wire format (a zero, and four bytes that name a schema in a registry) is skipped where a value
has one; the schema is always the one that was given. A value has to be used up to its last byte: that is how a header
is told from a value that begins with a zero, and how most values of another schema are found out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from trimtab.errors import JobError
from trimtab.sources.avro_types import columns_of
from trimtab.sources.values import Decoded, decode_halving

HEADER_BYTES = 5


@dataclass(frozen=True)
class AvroValues:
    """Values of an Avro schema, a record, which is given as the JSON text of an `.avsc` file.

    Arrow's columns are those of the record: see `avro_types`.
    """

    avro_schema: str
    schema: pa.Schema = field(init=False)
    takes_null: bool = False

    def __post_init__(self) -> None:
        """Raise JobError `source.schema` for a text that is no schema of a record."""
        object.__setattr__(self, "schema", columns_of(_record(self.avro_schema)))

    def decode(self, values: pa.Array) -> Decoded:
        """The rows of binary values."""
        return decode_halving(values, self._whole, self.schema)

    def _whole(self, values: pa.Array) -> pa.Table:
        read = self._read
        return pa.Table.from_pylist([read(value) for value in values.to_pylist()], schema=self.schema)

    @cached_property
    def _read(self) -> Callable[[bytes], dict[str, Any]]:
        fastavro = _fastavro()
        try:
            parsed = fastavro.parse_schema(_record(self.avro_schema))
        except fastavro.schema.SchemaParseException as error:
            raise _wrong(str(error)) from error

        def rest(value: bytes, start: int) -> dict[str, Any]:
            stream = io.BytesIO(value)
            stream.seek(start)
            try:
                record: dict[str, Any] = fastavro.schemaless_reader(stream, parsed, None)
            except Exception as error:  # a wrong length or index ends in any of a dozen
                raise ValueError(f"it isn't of the Avro schema: {type(error).__name__} {error}".rstrip()) from error
            if left := len(value) - stream.tell():
                raise ValueError(f"it isn't of the Avro schema: {left} bytes are left over")
            return record

        def read(value: bytes) -> dict[str, Any]:
            if value[:1] == b"\0" and len(value) > HEADER_BYTES:
                try:
                    return rest(value, HEADER_BYTES)
                except ValueError:
                    pass  # it is no header, but the value's first byte
            return rest(value, 0)

        return read

    def __getstate__(self) -> dict[str, Any]:
        """All but the reader, which is made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_read"}


def _record(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_hook=_without_uuids)
    except ValueError as error:
        raise _wrong(f"{error}") from error
    if not isinstance(found, dict) or found.get("type") != "record":
        raise _wrong("it isn't a record")
    return found


def _without_uuids(part: dict[str, Any]) -> dict[str, Any]:
    """UUIDs stay the strings or bytes that they are encoded as: Arrow's strings take no UUID of Python's."""
    return {name: value for name, value in part.items() if (name, value) != ("logicalType", "uuid")}


def _wrong(message: str) -> JobError:
    hint = 'write for instance {"type": "record", "name": "tick", "fields": [{"name": "price", "type": "double"}]}'
    return JobError("source.schema", f"the text isn't an Avro schema: {message}", hint)


def _fastavro() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ImportError as error:
        message = "decoding Avro needs the package fastavro"
        raise JobError("source.package", message, "pip install 'trimtab[kafka]'") from error
    return fastavro
