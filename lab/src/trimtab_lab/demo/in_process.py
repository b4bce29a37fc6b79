"""The demonstration without Spark: `trimtab.evaluate` over one table, as a whole and in batches."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa

from trimtab.api.evaluate import evaluate
from trimtab.cli.texts import text_table
from trimtab.engine.match.kernels.generated import COMPILE_FROM_ROWS
from trimtab.errors import InputError
from trimtab_lab.demo.queries import V_SHAPES
from trimtab_lab.workloads.ticks import market_ticks

ROWS = 200_000
SYMBOLS = 20
BATCHES = 25
SHOWN_ROWS = 8
PICTURE = "v_shapes.png"


def show(rows: int, folder: Path) -> None:
    """Make the data, run the query over all of it and in batches, print and draw."""
    print(V_SHAPES)
    ticks = market_ticks(rows, SYMBOLS)
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
    _draw(ticks, found, folder)


def _timed(ticks: pa.Table, cuts: list[int] | None = None) -> tuple[pa.Table, float]:
    begin = time.perf_counter()
    found = evaluate(V_SHAPES, {"ticks": ticks}, cuts=cuts)
    return found, time.perf_counter() - begin


def _draw(ticks: pa.Table, found: pa.Table, folder: Path) -> None:
    if not found.num_rows:
        print("\nThere is nothing to draw: give more --rows.")
        return
    try:
        from trimtab_lab.demo.v_shape_picture import draw_v_shapes
    except ModuleNotFoundError:
        print("\nNo picture: matplotlib is missing. Install it for one: pip install matplotlib")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draw_v_shapes(ticks, found, folder / PICTURE)
    except OSError as error:
        raise InputError("input.file", f"{folder / PICTURE} can't be written: {error.strerror}") from error
    print(f"\nThe deepest one is drawn in {folder / PICTURE}")
