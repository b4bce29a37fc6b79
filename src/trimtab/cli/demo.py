"""`trimtab demo`: a stream on a local Spark whose keys move, whose engines change, and whose answer doesn't."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from trimtab.cli import demo_in_process, demo_on_spark
from trimtab.errors import InputError

INTERRUPTED = 130  # what shells give for an interrupt


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "demo",
        help="run a stream on a local Spark, move its keys under way, and compare the answer",
        description="Make a day of synthetic trades as a stream of files, and run a pattern and a window over it on a "
        "local Spark. While it runs, key groups move, engines are added and removed, and the job is stopped and "
        "started again; then the answer is compared with that of one pass over all rows, and drawn.",
    )
    parser.add_argument(
        "--rows",
        type=int,
        help=f"how many trades to make (default: {demo_on_spark.ROWS:,}; without Spark {demo_in_process.ROWS:,})",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="FOLDER", help="where to write (default: demo)"
    )
    parser.add_argument("--plain", action="store_true", help="one line per batch instead of the live view")
    parser.add_argument(
        "--without-spark", action="store_true", help="no Spark and no Java: find and draw V-shapes in one process"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show one or the other; the exit status."""
    rows = options.rows
    if rows is None:
        rows = demo_in_process.ROWS if options.without_spark else demo_on_spark.ROWS
    if rows < 1:
        raise InputError("input.rows", f"a demonstration of {rows} rows shows nothing", "give --rows 200000")
    if options.without_spark:
        demo_in_process.show(rows, options.out)
        return 0
    try:
        is_same = demo_on_spark.show(rows, options.out, plain=options.plain)
    except KeyboardInterrupt:
        print("stopped; the next demonstration starts afresh", file=sys.stderr)
        return INTERRUPTED
    return 0 if is_same else 1
