"""`trimtab demo`: find falls and recoveries in a day of synthetic trading, and draw them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from trimtab.cli.tables import text_table
from trimtab.engine.kernels import COMPILE_FROM_ROWS
from trimtab.errors import InputError
from trimtab.evaluate import evaluate
from trimtab.testing.ticks import market_ticks

SYMBOLS = 20
BATCHES = 25
SHOWN_ROWS = 8
PICTURE = "v_shapes.png"
V_SHAPES = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    TOP.ts AS top_at,                    TOP.price AS top,
    MIN_BY(LOW.ts, LOW.price) AS low_at, MIN(LOW.price) AS low,
    BACK.ts AS back_at,                  BACK.price AS back,
    ROUND(100 * (1 - MIN(LOW.price) / TOP.price), 1) AS fall_percent
  PATTERN (TOP DOWN* CRASH UP* BACK) WITHIN INTERVAL '10' MINUTES
  SUBSET LOW = (CRASH, UP)
  DEFINE
    TOP   AS TOP.price >= PREV(TOP.price) AND TOP.price > NEXT(TOP.price),
    DOWN  AS DOWN.price <= TOP.price AND DOWN.price > TOP.price * 0.96,
    CRASH AS CRASH.price <= TOP.price * 0.96,  -- at least 4 % below the top
    UP    AS UP.price < TOP.price * 0.99,
    BACK  AS BACK.price >= TOP.price * 0.99    -- within 1 % of the top again
)
"""


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "demo",
        help="find V-shaped falls in synthetic trades and draw them",
        description="Make a day of synthetic trades, find every fall of at least 4 % that recovers within ten "
        "minutes, print the first ones and draw the deepest.",
    )
    parser.add_argument("--rows", type=int, default=200_000, help="how many trades to make (default: 200,000)")
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="FOLDER", help="where to put the picture (default: demo)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make the data, run the query whole and in batches, print and draw."""
    if options.rows < 1:
        raise InputError("input.rows", f"a demonstration of {options.rows} rows shows nothing", "give --rows 200000")
    print(V_SHAPES)
    ticks = market_ticks(options.rows, SYMBOLS)
    print(f"{ticks.num_rows:,} trades of {SYMBOLS} symbols, from 9:30 to 16:00.")
    if ticks.num_rows >= COMPILE_FROM_ROWS:
        print("Compiling the pattern to machine code; it is kept on disk for the next time.", end="", flush=True)
        _, seconds = _timed(ticks)
        print(f" {seconds:.1f} s")
    found, seconds = _timed(ticks)
    print(f"Matching: {seconds:.2f} s, {ticks.num_rows / seconds:,.0f} rows a second.")
    step = -(-ticks.num_rows // BATCHES)
    cuts = list(range(step, ticks.num_rows, step))
    in_batches, seconds = _timed(ticks, cuts)
    verdict = "the same answer" if in_batches.equals(found) else "ANOTHER ANSWER, which is a bug"
    print(f"Once more as a stream of {len(cuts) + 1} batches, with state carried over: {seconds:.2f} s, {verdict}.\n")
    print(text_table(found, SHOWN_ROWS))
    _draw(ticks, found, options.out)
    return 0


def _timed(ticks: pa.Table, cuts: list[int] | None = None) -> tuple[pa.Table, float]:
    begin = time.perf_counter()
    found = evaluate(V_SHAPES, {"ticks": ticks}, cuts=cuts)
    return found, time.perf_counter() - begin


def _draw(ticks: pa.Table, found: pa.Table, folder: Path) -> None:
    if not found.num_rows:
        print("\nThere is nothing to draw: give more --rows.")
        return
    try:
        from trimtab.cli.picture import draw_v_shapes
    except ModuleNotFoundError:
        print("\nNo picture: matplotlib is missing. Install trimtab[plot] for one.")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draw_v_shapes(ticks, found, folder / PICTURE)
    except OSError as error:
        raise InputError("input.file", f"{folder / PICTURE} can't be written: {error.strerror}") from error
    print(f"\nThe deepest one is drawn in {folder / PICTURE}")
