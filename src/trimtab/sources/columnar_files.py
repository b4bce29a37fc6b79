"""Parsers of files that hold columns: Parquet and Arrow."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.sources.file_content import Content, wanted


def parse_parquet(file: pa.NativeFile, schema: pa.Schema) -> Content:
    """The columns of a Parquet file; the others are not read."""
    with pq.ParquetFile(file) as found:
        names = wanted(found.schema_arrow.names, schema)
        return _content(found.read(columns=names, use_threads=False))


def parse_arrow(file: pa.NativeFile, schema: pa.Schema) -> Content:
    """The columns of an Arrow file, or of an Arrow stream in a file."""
    reader = _arrow_reader(file)
    names = wanted(reader.schema.names, schema)
    return _content(reader.read_all().select(names))


def parquet_schema(file: pa.NativeFile) -> pa.Schema:
    """The columns that a Parquet file says it has."""
    return pq.read_schema(file)


def arrow_schema(file: pa.NativeFile) -> pa.Schema:
    """The columns that an Arrow file says it has."""
    return _arrow_reader(file).schema


def _arrow_reader(file: pa.NativeFile) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    options = pa.ipc.IpcReadOptions(use_threads=False)
    magic = file.read(6)
    file.seek(0)
    return pa.ipc.open_file(file, options=options) if magic == b"ARROW1" else pa.ipc.open_stream(file, options=options)


def _content(table: pa.Table) -> Content:
    table.validate(full=True)  # a damaged file must not bring down what computes with it

    def raw(row: int) -> tuple[int, bytes]:
        # There are no bytes of one row: its values as JSON say what it was.
        return row + 1, json.dumps(table.slice(row, 1).to_pylist()[0], default=str).encode()

    return Content(table, raw)
