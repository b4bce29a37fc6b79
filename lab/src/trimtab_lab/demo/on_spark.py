"""The demonstration on a local Spark: make a stream, change the running job, and compare its answer with one pass."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.api.evaluate import evaluate
from trimtab.cli.around_spark import spark_errors
from trimtab.cli.texts import text_table
from trimtab.errors import InputError
from trimtab_lab.demo.job import Move, Resize, Restart, Story, make_job, run_job, schedule
from trimtab_lab.demo.queries import QUERIES, V_SHAPES
from trimtab_lab.demo.session import check_spark, demo_session
from trimtab_lab.demo.stream import DELAY_S, SYMBOLS, DemoFolders, in_order, write_stream
from trimtab_lab.demo.view import DemoView

ROWS = 400_000
FILES = 20
MASTER = "local[2]"
SHOWN_ROWS = 6
PICTURE = "demo.png"


def show(rows: int, out: Path, *, plain: bool = False, files: int = FILES, warm: bool = True) -> bool:
    """Run the whole demonstration; return whether the answers were the same."""
    check_spark()
    folders = DemoFolders(out / "stream")
    folders.make_afresh()
    print(V_SHAPES)
    ticks = write_stream(folders.ticks, rows, files)
    print(f"{rows:,} trades of {SYMBOLS} symbols in {files} files, up to {DELAY_S} s out of order: {folders.ticks}")
    view = DemoView(plain=plain)
    with demo_session(MASTER, plain=plain) as spark:
        story = _run(spark, folders, view, files, warm=warm)
    is_same = _compare(ticks, folders, story)
    _draw(ticks, folders, story, out, is_same=is_same)
    _what_next(folders, story)
    return is_same


def _run(spark: Any, folders: DemoFolders, view: DemoView, files: int, *, warm: bool) -> Story:
    def start(engines: int | None) -> Any:
        return make_job(spark, folders, engines, warm=warm).start(available_now=True, close=True)

    if warm:
        print("Compiling the pattern to machine code, which takes seconds the first time.", flush=True)
    began = time.perf_counter()
    with view.shown(), spark_errors("the job"):
        story = run_job(start, schedule(files), view)
    spent_s = time.perf_counter() - began
    engines = [len(batch.engines) for batch in story.batches]
    changed = [before for before, after in pairwise(engines) if before != after]
    kinds = [type(change) for _, change in story.changes]
    print(
        f"\n{len(story.batches)} batches in {spent_s:.0f} s. Under way {kinds.count(Move)} moves and "
        f"{kinds.count(Resize)} resizes ({' -> '.join(map(str, [*changed, engines[-1]]))} engines) brought "
        f"{story.moved:,} key groups to another engine; {kinds.count(Restart)} restart."
    )
    return story


def _compare(ticks: pa.Table, folders: DemoFolders, story: Story) -> bool:
    """Compare what the job wrote with one pass over all rows, and print the result."""
    print("The same queries in one pass over all rows, without Spark:")
    rejected = sum(batch.late + batch.quarantined for batch in story.batches)
    verdicts = []
    for name, sql in QUERIES.items():
        began = time.perf_counter()
        expected = evaluate(sql, {"ticks": ticks}, event_time="ts", delay=f"{DELAY_S} seconds")
        spent_s = time.perf_counter() - began
        found = in_order(pq.read_table(folders.found(name)))
        verdicts.append(found.equals(in_order(expected.cast(found.schema))))
        verdict = "the same" if verdicts[-1] else "ANOTHER ANSWER, which is a bug"
        print(f"  {name:<8}  {expected.num_rows:>6,} rows; the job's {found.num_rows:,}: {verdict} ({spent_s:.1f} s)")
    print(f"  rejected  {rejected} rows (late or in quarantine)\n")
    found = pq.read_table(folders.found("v_shapes")).sort_by([("fall_percent", "descending"), ("top_at", "ascending")])
    print(text_table(found, SHOWN_ROWS))
    return all(verdicts)


def _draw(ticks: pa.Table, folders: DemoFolders, story: Story, out: Path, *, is_same: bool) -> None:
    try:
        from trimtab_lab.demo.picture import draw_story
    except ModuleNotFoundError:
        print("\nNo picture: matplotlib is missing. Install it for one: pip install matplotlib")
        return
    try:
        draw_story(story, ticks, pq.read_table(folders.found("v_shapes")), out / PICTURE, is_same=is_same)
    except OSError as error:
        raise InputError("input.file", f"{out / PICTURE} can't be written: {error.strerror}") from error
    print(f"\nThe engines' load and the deepest falls are drawn in {out / PICTURE}")


def _what_next(folders: DemoFolders, story: Story) -> None:
    last = story.batches[-1].batch - 1  # the end of the input removed the last one's state
    print(
        f"What the queries found is parquet: {folders.found('v_shapes')}, {folders.found('candles')}\n"
        "To look into the job's state:\n"
        f"  trimtab state ls {folders.checkpoint}\n"
        f"  trimtab state show {folders.checkpoint} --batch {last} --query v_shapes symbol=KEEL\n"
        f"  trimtab state verify {folders.checkpoint}\n"
        "To write a job of your own: docs/jobs.md in Python, docs/running.md as a file."
    )
