"""Values that are JSON objects, one in each: all of them are parsed at once, by Arrow's reader of JSON lines.

Fields that the schema lacks are ignored, those that a value lacks are null. Times are what Spark's `from_json` takes:

- TIMESTAMP: ISO 8601 (`2030-01-01T12:00:00.5+01:00`; without a zone it is UTC; digits after microseconds are cut off),
  or a whole number of seconds since 1970. For milliseconds declare a BIGINT, and compute the time in the query.
- DATE: `2030-01-01`.

Where Arrow is stricter than Spark, the value can't be decoded: a number for a STRING, `1.0` for a BIGINT, more digits
than a DECIMAL has, a field that is there twice. BINARY and MAP are refused, and so is DATE within other types.

Of objects of 118 bytes with four columns, one of them a time, a core decodes 1.2 million a second; half as many if
times have nine digits after the second. Bad values cost more: ten among 50,000 take as long as 200,000 good ones, and
where all are bad it is 1,600 a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from trimtab.errors import JobError
from trimtab.sources.values import Decoded, as_text, decode_halving

BLOCK_BYTES_AT_MOST = 1 << 28  # Arrow's reader takes 2 GB; smaller blocks stay clear of that after joining
_NEWLINES = "[\r\n]"
_TOO_FINE = r"(\.\d{6})\d+"
_ZONE = r"[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_NO_CLOCK = r"^\d+-\d+-\d+$"
_US_IN_S = 1_000_000


@dataclass(frozen=True, slots=True)
class JsonValues:
    """Values that are JSON objects with these columns.

    >>> values = pa.array([b'{"k": 1, "more": 2}', b'{"k": tru}', b"{}"])
    >>> decoded = JsonValues(pa.schema({"k": pa.int64()})).decode(values)
    >>> decoded.table.to_pylist(), decoded.reasons
    ([{'k': 1}, {'k': None}], {1: 'Invalid value.'})
    """

    schema: pa.Schema
    takes_null: bool = False

    def __post_init__(self) -> None:
        """Raise JobError `source.schema` for columns that can't be read from JSON."""
        for column in self.schema:
            if wrong := _unreadable(column.type, inside=False):
                hint = "declare it as STRING, or give value='bytes' and decode it yourself"
                raise JobError("source.schema", f"column {column.name} is {column.type}: JSON has no {wrong}", hint)

    def decode(self, values: pa.Array) -> Decoded:
        """The rows of binary values."""
        return decode_halving(values, self._whole, self.schema)

    def _whole(self, values: pa.Array) -> pa.Table:
        if values.nbytes > BLOCK_BYTES_AT_MOST and len(values) > 1:
            raise ValueError("these are too many bytes at once")
        text = as_text(values)
        # Arrow's reader looks at no line's end: two lines may hold one object, and one line two. That each value is in
        # braces rules the former out (no brace may open after one that has closed), the number of rows the latter.
        if not _in_braces(text) and not _in_braces(pc.utf8_trim(text, " \t\r\n")):
            raise ValueError("it isn't a JSON object")
        lines = _joined(text)
        failed: ValueError | None = None
        for kinds in self._readings(text[0].as_py()):
            try:
                return self._parsed(lines, len(text), kinds)
            except ValueError as error:
                failed = failed or error
                if "timestamp" not in str(error):
                    break  # reading times otherwise would be of no use
        raise ValueError(str(failed).removeprefix("JSON parse error: ").removesuffix(" in row 0")) from failed

    def _readings(self, first: str) -> Iterator[pa.Schema]:
        """The types to read, which depend on how the first value writes its times; mostly the others do the same."""
        times = [column.name for column in self.schema if pa.types.is_timestamp(column.type)]
        fields = _fields(first) if times else {}
        numbers = {name for name in times if type(fields.get(name)) is int}
        # What Arrow makes a time of goes first; then, as text, what has more digits than it takes.
        for texts in [set[str](), set(times) - numbers] if len(times) > len(numbers) else [set[str]()]:
            yield pa.schema([(column.name, _read_as(column, numbers, texts)) for column in self.schema])

    def _parsed(self, lines: pa.Buffer, rows: int, kinds: pa.Schema) -> pa.Table:
        found = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=kinds, unexpected_field_behavior="ignore"),
        )
        if found.num_rows != rows:
            raise ValueError("it is more than one JSON object")
        return pa.table([_as(found[column.name], column.type) for column in self.schema], schema=self.schema)


def _unreadable(kind: pa.DataType, *, inside: bool) -> str:
    """What of a type can't be read from JSON; "" if all can."""
    if pa.types.is_map(kind) or pa.types.is_dictionary(kind):
        return f"{kind}"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    if inside and pa.types.is_date(kind):
        return "dates within other types"
    inner = [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return next((wrong for each in inner if (wrong := _unreadable(each, inside=True))), "")


def _in_braces(text: pa.Array) -> bool:
    return bool(pc.all(pc.and_(pc.starts_with(text, "{"), pc.ends_with(text, "}"))).as_py())


def _joined(text: pa.Array) -> pa.Buffer:
    """The values as lines.

    A newline within a value becomes a tab, which is white space as well, and as wrong within quotes.
    """
    if pc.any(pc.match_substring_regex(text, _NEWLINES)).as_py():
        text = pc.replace_substring_regex(text, _NEWLINES, "\t")
    together = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
    return pc.binary_join(together, "\n")[0].as_buffer()


def _fields(value: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_as(column: pa.Field, numbers: set[str], texts: set[str]) -> pa.DataType:
    if column.name in numbers:
        return pa.int64()
    return pa.string() if column.name in texts or pa.types.is_date(column.type) else column.type


def _as(found: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if found.type == kind:
        return found
    if pa.types.is_timestamp(kind):
        number = found.type == pa.int64()
        times = pc.multiply_checked(found, _US_IN_S).cast(pa.timestamp("us", "UTC")) if number else _times(found)
        return times.cast(pa.timestamp("us", kind.tz)).cast(kind)
    return found.cast(kind)


def _times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts in ISO 8601 as times in UTC."""
    cut = pc.replace_substring_regex(texts, _TOO_FINE, r"\1")
    cut = pc.if_else(pc.match_substring_regex(cut, _NO_CLOCK), pc.binary_join_element_wise(cut, "00:00:00", " "), cut)
    zoned = pc.match_substring_regex(cut, _ZONE)
    return pc.if_else(zoned, cut, pc.binary_join_element_wise(cut, "Z", "")).cast(pa.timestamp("us", "UTC"))
