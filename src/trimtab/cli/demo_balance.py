"""The demonstration of balancing: the same skewed stream on two jobs at once, hashed and balanced, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trimtab.cli.demo_panels import RaceScreen
from trimtab.cli.demo_payments import CARDS, phase_of, write_payments
from trimtab.cli.demo_race import BALANCED, ENGINES, HASHED, NAMES, Course, make_job, run_both
from trimtab.cli.demo_scoring import QUERY
from trimtab.cli.demo_session import check_spark, demo_session
from trimtab.cli.demo_stream import DemoFolders
from trimtab.cli.spark_errors import spark_errors
from trimtab.errors import InputError
from trimtab.evaluate import evaluate
from trimtab.runtime.balance import DEFAULT, Balance

MASTER = f"local[{2 * ENGINES}]"
"""A thread for each engine of both jobs. They wait more than they compute, so fewer cores will do."""
PICTURE = "balance.png"


@dataclass(frozen=True, slots=True)
class Size:
    """How large a demonstration is.

    `model_us`: what the simulated model takes for an event. `seed`: the default is one with which hashing is unlucky in
    every phase: the hottest cards fall together on one engine, each time on another one.
    """

    rows: int = 27_000
    files: int = 27
    phases: int = 3
    model_us: int = 1_600
    seed: int = 3332

    @property
    def starts(self) -> list[int]:
        """The first batch of each phase."""
        phases = [phase_of(file, self.files, self.phases) for file in range(self.files)]
        return [phases.index(phase) for phase in range(self.phases)]


def show(out: Path, size: Size, *, balance: Balance = DEFAULT, plain: bool = False) -> bool:
    """All of it; whether the answers were the same."""
    check_spark()
    folders = DemoFolders(out / "balance")
    folders.make_afresh()
    print(
        f"One stream, two jobs of {ENGINES} engines each. In the first, keys stay where their hash puts them;\n"
        "in the second, a coordinator moves key groups when engines aren't equally busy.\n"
    )
    print(QUERY.format(model_us=size.model_us), flush=True)
    payments = write_payments(folders.ticks, size.rows, size.files, size.phases, seed=size.seed)
    print(
        f"{size.rows:,} payments by {CARDS} cards, the hottest with a fifth of them; others become hot "
        f"{_times(size.phases - 1)}.\nThe work is simulated: each event waits {size.model_us} us for a model that "
        f"isn't there, so that two cores can show {2 * ENGINES} engines."
    )
    screen = RaceScreen(size.files, size.starts, plain=plain)
    with demo_session(MASTER) as spark:
        courses = _run(spark, folders, size, balance, screen)
    is_same = _compare(payments, folders)
    _conclude(courses)
    _draw(courses, size, out, is_same=is_same)
    _what_next(folders)
    return is_same


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _run(spark: Any, folders: DemoFolders, size: Size, balance: Balance, screen: RaceScreen) -> dict[str, Course]:
    def start(name: str) -> Any:
        policy = balance if name == BALANCED else None
        job = make_job(spark, folders.ticks, folders.home / name, policy, size.model_us)
        return job.start(available_now=True, close=True)

    print(f"Both jobs start on {MASTER}.", flush=True)
    with screen.shown(), spark_errors("the job"):
        return run_both(start, screen)


def _compare(payments: pa.Table, folders: DemoFolders) -> bool:
    """Hold what both jobs wrote against each other, and against one pass over all rows."""
    expected = evaluate(QUERY.format(model_us=0), {"payments": payments}, event_time="ts")
    answers = {name: _in_order(pq.read_table(folders.home / name / "unusual")) for name in NAMES}
    once = _in_order(expected.cast(answers[HASHED].schema))
    is_same = all(answer.equals(once) for answer in answers.values())
    counts = ", ".join(f"{answer.num_rows:,} rows {name}" for name, answer in answers.items())
    verdict = "the same" if is_same else "NOT THE SAME, which is a bug"
    print(f"\nAnswers: {counts}, {once.num_rows:,} in one pass without Spark: {verdict}.")
    return is_same


def _in_order(table: pa.Table) -> pa.Table:
    """The rows as a set: a stream's order follows its batches."""
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
    return table.take(order).combine_chunks()


def _conclude(courses: Mapping[str, Course]) -> None:
    for name, course in courses.items():
        print(
            f"{name:<8}  {course.spent_s:5.1f} s, {course.events_per_s:6,.0f} events a second, "
            f"RSTD {course.mean_rstd:.0f} % on average, {course.moved:,} moves of key groups"
        )
    times = courses[HASHED].spent_s / max(courses[BALANCED].spent_s, 1e-9)
    print(f"Balanced was {times:.2f} times as fast (without the first batch, in which Spark starts its workers).")


def _draw(courses: Mapping[str, Course], size: Size, out: Path, *, is_same: bool) -> None:
    try:
        from trimtab.cli.demo_race_picture import draw_race
    except ModuleNotFoundError:
        print("\nNo picture: matplotlib is missing. Install trimtab[plot] for one.")
        return
    try:
        draw_race(courses, size.starts, DEFAULT.max_rstd or 0.0, out / PICTURE, is_same=is_same)
    except OSError as error:
        raise InputError("input.file", f"{out / PICTURE} can't be written: {error.strerror}") from error
    print(f"\nDeviation and throughput are drawn in {out / PICTURE}")


def _what_next(folders: DemoFolders) -> None:
    checkpoint = folders.home / BALANCED / "checkpoint"
    print(
        "What the coordinator saw and decided, and what another policy would have done on the same loads:\n"
        f"  trimtab replay {checkpoint}\n"
        f"  trimtab replay {checkpoint} --balance flux --max-rstd 5\n"
        "Patterns whose keys move by hand, with engines that come and go and a restart:\n"
        "  trimtab demo --patterns\n"
        "docs/balancing.md tells how to balance a job of your own."
    )
