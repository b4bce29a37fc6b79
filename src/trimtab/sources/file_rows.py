"""The rows of one file, by its format, with the schema of the source; and its lines that are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from trimtab.sources.casting import cast_rows, is_castable
from trimtab.sources.columnar_files import arrow_schema, parquet_schema, parse_arrow, parse_parquet
from trimtab.sources.file_content import UNREADABLE, Bad, Parser
from trimtab.sources.text_files import parse_csv, parse_json

PARSERS: Mapping[str, Parser] = {"parquet": parse_parquet, "csv": parse_csv, "json": parse_json, "arrow": parse_arrow}
SCHEMAS: Mapping[str, Callable[[pa.NativeFile], pa.Schema]] = {"parquet": parquet_schema, "arrow": arrow_schema}
"""The formats whose files say what columns they have. Others would have to be guessed, and the next file differ."""

HEAD_BYTES = 4096
"""How much of a file is kept that can't be parsed at all."""


def impossible(format: str, schema: pa.Schema) -> pa.Field | None:
    """A column whose values no file of the format could give, whatever is in it; None: there is none."""
    if format in SCHEMAS:
        return None  # they have columns of any type: whether it can be cast is up to the file
    return next((field for field in schema if not _can_have(format, field)), None)


def _can_have(format: str, field: pa.Field) -> bool:
    if format == "csv":
        return is_castable(pa.binary(), field.type)
    try:
        found = parse_json(pa.BufferReader(b"{}"), pa.schema([field])).table
    except pa.ArrowNotImplementedError:
        return False
    return is_castable(found.column(0).type, field.type)


def rows_of(file: pa.NativeFile, format: str, schema: pa.Schema) -> tuple[pa.Table, list[Bad]]:
    """The rows of a file that have the schema, and its bad lines in order.

    A file that can't be parsed as a whole is one bad line, number 0: it must not stop the job for ever. What isn't the
    file's fault, such as too little memory, is raised: the file may be good.
    """
    try:
        content = PARSERS[format](file, schema)
    except UNREADABLE as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the storage; Arrow raises OSError for damaged files, too, but without a number
        file.seek(0)
        return schema.empty_table(), [Bad(0, file.read(HEAD_BYTES), f"no {format} file: {str(error).splitlines()[0]}")]
    table, wrong = cast_rows(content.table, schema)
    bad = content.bad + [Bad(*content.raw(row), reason) for row, reason in wrong.items()]
    return table, sorted(bad)
