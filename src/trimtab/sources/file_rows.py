"""The rows of one file, by its format, with the schema of the source; and its lines that are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from trimtab.sources.casting import cast_rows
from trimtab.sources.columnar_files import arrow_schema, parquet_schema, parse_arrow, parse_parquet
from trimtab.sources.file_content import Bad, Parser
from trimtab.sources.text_files import parse_csv, parse_json

PARSERS: Mapping[str, Parser] = {"parquet": parse_parquet, "csv": parse_csv, "json": parse_json, "arrow": parse_arrow}
SCHEMAS: Mapping[str, Callable[[pa.NativeFile], pa.Schema]] = {"parquet": parquet_schema, "arrow": arrow_schema}
"""The formats whose files say what columns they have. Others would have to be guessed, and the next file differ."""

HEAD_BYTES = 4096
"""How much of a file is kept that can't be parsed at all."""


def rows_of(file: pa.NativeFile, format: str, schema: pa.Schema) -> tuple[pa.Table, list[Bad]]:
    """The rows of a file that have the schema, and its bad lines in order.

    A file that can't be parsed as a whole is one bad line, number 0: it must not stop the job for ever.
    """
    try:
        content = PARSERS[format](file, schema)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the storage; Arrow raises OSError for damaged files, too, but without a number
        file.seek(0)
        return schema.empty_table(), [Bad(0, file.read(HEAD_BYTES), f"no {format} file: {str(error).splitlines()[0]}")]
    table, wrong = cast_rows(content.table, schema)
    bad = content.bad + [Bad(*content.raw(row), reason) for row, reason in wrong.items()]
    return table, sorted(bad)
