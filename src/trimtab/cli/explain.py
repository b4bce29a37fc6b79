"""`trimtab explain`: what a query is compiled to, without running it."""

from __future__ import annotations

import argparse
from typing import Any

import pyarrow as pa

from trimtab.cli.files import add_query_and_tables, import_operators, query_file, read_schemas
from trimtab.errors import InputError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query
from trimtab.language.explain import explain, kernel_of
from trimtab.rowwise.schemas import parse_schema
from trimtab.rowwise.types import is_time
from trimtab.worker.intake import intake_of
from trimtab.worker.tier_one import obstacle_to_columns


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "explain",
        help="show what a query is compiled to",
        description="Show the parts of a compiled query: the work on each row, the pattern as a program, the "
        "conditions, what a partial match remembers, and how it all runs. Nothing is run.",
    )
    add_query_and_tables(parser, "take the columns of a table from a .parquet or .csv file")
    written = 'or write them: "ticks(ts timestamp, symbol string, price double)"'
    parser.add_argument("--schema", action="append", default=[], metavar="SCHEMA", help=written)
    parser.add_argument("--event-time", metavar="COLUMN", help="check the query as one over a stream with this time")
    parser.add_argument("--kernel", action="store_true", help="print the generated kernel as well")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compile and print."""
    import_operators(options.operators)
    schemas = read_schemas(options.table) | dict(parse_schema(text) for text in options.schema)
    if not schemas:
        message = "a query can't be checked without the columns of the table that it reads"
        hint = 'add --table ticks=ticks.parquet, or --schema "ticks(ts timestamp, price double)"'
        raise InputError("input.schema", message, hint)
    streams = schemas | dict(parse_schema(text, zone="UTC") for text in options.schema)  # as a job has the columns
    with query_file(options.query) as sql:
        query = compile_query(sql, schemas, event_time=options.event_time)
        print(explain(query, reading=way_of_rows(query, streams[query.source], options.event_time)))
        if options.kernel and (kernel := kernel_of(query.operator)) is not None:
            print(f"\nKERNEL\n{kernel.source}", end="")
    return 0


def way_of_rows(query: Query, schema: pa.Schema, event_time: str | None = None) -> str:
    """Which way the rows of a stream go if trimtab reads it itself, as a line; "" if the stream has no event time.

    >>> from trimtab.language.compile import compile_query
    >>> schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "s": pa.string()})
    >>> way_of_rows(compile_query("SELECT reverse(s) AS s FROM t", {"t": schema}), schema)
    "if trimtab reads it: through the JVM, as REVERSE(s): reverse isn't known to give the same here as in Spark"
    """
    times = [field.name for field in schema if is_time(field.type)]
    if event_time is None and not times:
        return ""
    obstacle = obstacle_to_columns(intake_of({"query": query}, schema, event_time or times[0]), schema)
    way = "over columns, without the JVM" if obstacle is None else f"through the JVM, as {obstacle}"
    return f"if trimtab reads it: {way}"
