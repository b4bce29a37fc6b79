"""Parsers of files that hold a row in each line: CSV and JSON.

A line that can't be parsed loses itself and no other. A whole file is parsed at once; only if that fails is it halved,
again and again, until the bad lines are alone.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from trimtab.sources.file_content import Bad, Content, wanted

BLOCK_BYTES = 1 << 30
"""A file is parsed in blocks of this size at most; it may be longer."""
_MARK = b"\xef\xbb\xbf"  # "byte order mark", which some programs put before UTF-8

_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # how such a file begins; no text in UTF-8 does

Parsed = tuple[pa.Table, list[int]]
"""The rows of some lines, and which lines gave none, ascending."""


def parse_csv(file: pa.NativeFile, schema: pa.Schema) -> Content:
    """The columns of a CSV file as bytes. Its first line has their names; an empty field without quotes is null."""
    text = _Lines(_read(file))
    if not text.lines:
        return Content(pa.table({}), text.raw)
    header, text.lines = text.lines[0], text.lines[1:]
    try:
        names = next(csv.reader([header.decode()]))
    except (UnicodeDecodeError, csv.Error) as error:
        raise pa.ArrowInvalid(f"its first line can't be read: {error}") from error
    included = wanted(names, schema)
    # An open quote would swallow the lines after it; then this row is missing, and the lines are tried one by one.
    last = b",".join([b"x"] * len(names))

    def parse(lines: Sequence[bytes]) -> Parsed:
        data = b"\n".join([*lines, last])
        short: list[int] = []

        def skip(row: pa_csv.InvalidRow) -> str:
            short.append(row.number - 1)
            return "skip"

        table = pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(use_threads=False, column_names=names, block_size=min(BLOCK_BYTES, len(data) + 1)),
            pa_csv.ParseOptions(invalid_row_handler=skip),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(included, pa.binary()),
                include_columns=included,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        if table.num_rows + len(short) != len(lines) + 1:
            raise pa.ArrowInvalid("a quote isn't closed")
        return table.slice(0, table.num_rows - 1), short

    reason = f"it doesn't have {len(names)} fields"
    return text.parsed(parse, reason, pa.schema({name: pa.binary() for name in included}))


def parse_json(file: pa.NativeFile, schema: pa.Schema) -> Content:
    """The columns of a file with a JSON object in each line; fields that it lacks are null."""
    text = _Lines(_read(file))
    types = pa.schema({field.name: _json_type(field.type) for field in schema})

    def parse(lines: Sequence[bytes]) -> Parsed:
        data = b"\n".join(lines)
        table = pa_json.read_json(
            pa.BufferReader(data),
            pa_json.ReadOptions(use_threads=False, block_size=min(BLOCK_BYTES, len(data) + 1)),
            pa_json.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(lines):
            raise pa.ArrowInvalid("it isn't one JSON object")
        table.validate(full=True)  # texts in lists and structs may not be UTF-8; others are cast later
        return table, []

    return text.parsed(parse, "", types)


def _json_type(type_: pa.DataType) -> pa.DataType:
    """The type to parse: what JSON writes as text stays as it is, and is cast later, with texts of other formats."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
    return pa.binary() if any(kind(type_) for kind in kinds) else type_


def _read(file: pa.NativeFile) -> bytes:
    data: bytes = file.read()
    for start, codec in _COMPRESSED.items():
        if data.startswith(start):
            with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
                data = stream.read()
    return data


class _Lines:
    """The lines of a file that aren't empty."""

    def __init__(self, data: bytes) -> None:
        self._all = data.removeprefix(_MARK).splitlines()
        self.lines = [*filter(None, self._all)]
        self._row_lines: npt.NDArray[np.int64] | None = None  # None: each line is a row

    def parsed(self, parse: Callable[[Sequence[bytes]], Parsed], short: str, schema: pa.Schema) -> Content:
        """The rows of all lines that `parse` can parse; it raises ArrowInvalid if one of its lines is wrong.

        `short` is the reason for lines that gave no row.
        """
        tables, rows, bad = list[pa.Table](), list[npt.NDArray[np.int64]](), dict[int, str]()
        waiting = [(0, len(self.lines))] if self.lines else []
        while waiting:
            start, end = waiting.pop()
            try:
                table, without = parse(self.lines[start:end])
            except pa.ArrowInvalid as error:
                if end - start == 1:
                    bad[start] = str(error).splitlines()[0]
                else:
                    waiting += [((start + end) // 2, end), (start, (start + end) // 2)]
                continue
            tables.append(table)
            rows.append(np.delete(np.arange(start, end), without))
            bad |= {start + line: short for line in without}
        if bad:
            self._row_lines = np.concatenate([np.empty(0, np.int64), *rows])
        lost = [Bad(self._numbers[line], self.lines[line], reason) for line, reason in sorted(bad.items())]
        return Content(pa.concat_tables(tables or [schema.empty_table()]), self.raw, lost)

    def raw(self, row: int) -> tuple[int, bytes]:
        """The number in the file, and the bytes, of a row's line."""
        line = row if self._row_lines is None else int(self._row_lines[row])
        return self._numbers[line], self.lines[line]

    @cached_property
    def _numbers(self) -> list[int]:
        full = [number for number, line in enumerate(self._all, start=1) if line]
        return full[len(full) - len(self.lines) :]  # without the header
