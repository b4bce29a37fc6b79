"""The demonstration of balancing: the same skewed stream on two jobs, hashed and balanced."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trimtab.api.evaluate import evaluate
from trimtab.cli.around_spark import spark_errors
from trimtab.deciding.policy import Balance
from trimtab.errors import InputError
from trimtab_lab.demo.panels import RaceScreen
from trimtab_lab.demo.payments import CARDS, HOT_CARDS, HOT_SHARE, write_payments
from trimtab_lab.demo.race import BALANCED, NAMES, Course, Race, make_job, run_race
from trimtab_lab.demo.seed import SEED
from trimtab_lab.demo.session import check_spark, demo_session
from trimtab_lab.demo.steps import step
from trimtab_lab.demo.stream import DemoFolders, in_order
from trimtab_lab.demo.verdict import ComputingVerdict, WaitingVerdict

POLICY = Balance(measure="events", patience=1)
"""Events all cost the same here, so their number is a better measure than the time, which depends on how busy the
machine is. Numbers of events have no spikes either: one uneven batch is enough to act on."""
COMPUTING = Race("computing", engines=2, rows=150_000, files=5, layers=16, balance=POLICY)
WAITING = Race("waiting", engines=4, rows=60_000, files=10, wait_us=1_000, balance=POLICY)
PICTURE = "balance.png"


def show(out: Path, computing: Race = COMPUTING, waiting: Race = WAITING, *, plain: bool = False) -> bool:
    """Run the whole demonstration; return whether the answers were the same."""
    check_spark()
    folders = DemoFolders(out / "balance")
    folders.make_afresh()
    print(
        "One stream, two jobs. In the first, keys stay where their hash puts them; in the second, a coordinator\n"
        "moves key groups when engines aren't equally busy.\n"
    )
    races = (computing, waiting)
    streams = [write_payments(folders.ticks / race.name, race.rows, race.files, seed=SEED) for race in races]
    hottest = _hottest_share(streams[0])
    print(
        f"The stream: payments by {CARDS} cards, {HOT_CARDS} of which make {100 * HOT_SHARE:.0f} % of them in equal "
        f"parts; the hottest has {100 * hottest:.0f} %.\n"
        "Of 1,000 such streams it is a typical one: what hashing loses with it is the median."
    )
    with ThreadPoolExecutor(1) as beside:
        answers = [
            beside.submit(evaluate, race.sql_in_one_pass, {"payments": stream}, event_time="ts")
            for race, stream in zip(races, streams, strict=True)
        ]
        with demo_session(f"local[{len(NAMES) * waiting.engines}]", plain=plain) as spark:
            # Before the jobs, which it would slow down; what has to be compiled is compiled here, not by every worker.
            with step("Computing the answers in one pass, without Spark", plain=plain):
                expected = [answer.result() for answer in answers]
            courses = [_run(spark, folders, race, plain=plain) for race in races]
    print()
    is_same = [_compare(race, once, folders) for race, once in zip(races, expected, strict=True)]
    computed, waited = ComputingVerdict(computing, courses[0], hottest), WaitingVerdict(waiting, courses[1])
    print(f"\n{computed.text}\n\n{waited.text}\n\n{waited.headline(is_same=all(is_same))}.")
    _draw(computed, waited, out, is_same=all(is_same))
    _what_next(folders.home / waiting.name / BALANCED / "checkpoint")
    return all(is_same)


def _hottest_share(payments: pa.Table) -> float:
    counts = payments["card"].value_counts().field("counts")
    return float(pc.max(counts).as_py() / payments.num_rows)


def _run(spark: Any, folders: DemoFolders, race: Race, *, plain: bool) -> dict[str, Course]:
    def start(name: str) -> Any:
        job = make_job(spark, race, name, folders.ticks / race.name, folders.home / race.name / name)
        return job.start(available_now=True, close=True)

    print(f"\n{race.introduction}\n{race.sql}\n", flush=True)
    screen = RaceScreen(race.files, plain=plain)
    with screen.shown(), spark_errors("the job"):
        return run_race(start, race.turns, screen)


def _compare(race: Race, expected: pa.Table, folders: DemoFolders) -> bool:
    """Compare what both jobs wrote with one pass over all rows."""
    answers = {name: in_order(pq.read_table(folders.home / race.name / name / "unusual")) for name in NAMES}
    is_same = all(answer.equals(in_order(expected.cast(answer.schema))) for answer in answers.values())
    counts = ", ".join(f"{answer.num_rows:,} rows {name}" for name, answer in answers.items())
    verdict = "the same" if is_same else "NOT THE SAME, which is a bug"
    print(f"Answers of the {race.name} engines: {counts}, {expected.num_rows:,} in one pass without Spark: {verdict}.")
    return is_same


def _draw(computed: ComputingVerdict, waited: WaitingVerdict, out: Path, *, is_same: bool) -> None:
    try:
        from trimtab_lab.demo.race_picture import draw_races
    except ModuleNotFoundError:
        print("\nNo picture: matplotlib is missing. Install it for one: pip install matplotlib")
        return
    try:
        draw_races(waited, computed, out / PICTURE, is_same=is_same)
    except OSError as error:
        raise InputError("input.file", f"{out / PICTURE} can't be written: {error.strerror}") from error
    print(f"Deviation and throughput are drawn in {out / PICTURE}\n")


def _what_next(checkpoint: Path) -> None:
    print(
        "What the coordinator saw and decided, and what another policy would have done on the same loads:\n"
        f"  trimtab replay {checkpoint}\n"
        f"  trimtab replay {checkpoint} --balance flux --max-rstd 5\n"
        "Patterns whose keys are moved by hand, with engines added and removed and a restart:\n"
        "  trimtab demo --patterns\n"
        "docs/balancing.md says how to balance a job of your own."
    )
