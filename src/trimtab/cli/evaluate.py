"""`trimtab evaluate`: run a query over files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trimtab.api.evaluate import evaluate
from trimtab.cli.files import add_query_and_tables, import_operators, query_file, read_tables, write_table
from trimtab.cli.texts import text_table


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "evaluate",
        help="run a query over Parquet or CSV files",
        description="Run a query over files, print the first rows of its answer or write all of them.",
    )
    add_query_and_tables(parser, "a table that the query reads, from a .parquet or .csv file")
    parser.add_argument(
        "--event-time", metavar="COLUMN", help="the column with the time of each event; rows may then be out of order"
    )
    parser.add_argument("--delay", metavar="LENGTH", help='how late a row may be, such as "2 seconds"')
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the answer to a .parquet or .csv file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Evaluate, then print or write."""
    import_operators(options.operators)
    tables = read_tables(options.table)
    with query_file(options.query) as sql:
        answer = evaluate(sql, tables, event_time=options.event_time, delay=options.delay)
    if options.out is None:
        print(text_table(answer))
        return 0
    write_table(answer, options.out)
    print(f"{answer.num_rows:,} rows written to {options.out}")
    return 0
