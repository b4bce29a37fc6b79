"""`trimtab demo`: a skewed stream twice, hashed and balanced; or patterns on Spark, or without it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from trimtab.errors import InputError
from trimtab_lab.demo import in_process as demo_in_process
from trimtab_lab.demo import on_spark as demo_on_spark

INTERRUPTED = 130  # the exit status of shells for an interrupt


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "demo",
        help="run a skewed stream on a local Spark twice, hashed and balanced",
        description="Make a skewed stream of payments, and run it twice on a local Spark: with keys that stay where "
        "their hash puts them, and with a coordinator that moves them; once on two engines that compute, and once on "
        "four that wait. Then compare the answers, and draw how even the load was and how fast the jobs were.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="FOLDER", help="where to write (default: demo)"
    )
    parser.add_argument("--plain", action="store_true", help="one line per batch instead of the live view")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--patterns",
        action="store_true",
        help="another one: a pattern and a window over a day of trades; keys are moved by hand, engines are added and "
        "removed, the job is restarted, and the answer is that of one pass over all rows",
    )
    kinds.add_argument(
        "--without-spark", action="store_true", help="no Spark and no Java: find and draw V-shapes in one process"
    )
    parser.add_argument(
        "--rows",
        type=int,
        help=f"how many trades to make, with --patterns (default: {demo_on_spark.ROWS:,}) or --without-spark "
        f"({demo_in_process.ROWS:,})",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show one of them; return the exit status."""
    rows = options.rows
    if rows is not None and not (options.patterns or options.without_spark):
        message = "--rows is for trades, and this demonstration has payments"
        raise InputError("input.rows", message, "add --patterns or --without-spark")
    if rows is None:
        rows = demo_in_process.ROWS if options.without_spark else demo_on_spark.ROWS
    if rows < 1:
        raise InputError("input.rows", f"a demonstration of {rows} rows shows nothing", "give --rows 200000")
    if options.without_spark:
        demo_in_process.show(rows, options.out)
        return 0
    try:
        if options.patterns:
            is_same = demo_on_spark.show(rows, options.out, plain=options.plain)
        else:
            from trimtab_lab.demo import balance as demo_balance

            is_same = demo_balance.show(options.out, plain=options.plain)
    except KeyboardInterrupt:
        print("stopped; the next demonstration starts from the beginning", file=sys.stderr)
        return INTERRUPTED
    return 0 if is_same else 1
