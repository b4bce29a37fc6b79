"""`trimtab demo`: its stream and operator, the races, their verdicts, and the picture. On Spark: test_demo_on_spark."""

from __future__ import annotations

import dataclasses
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from trimtab.api.evaluate import evaluate
from trimtab.cli.main import main
from trimtab.driver.progress import BatchProgress, EngineProgress, Progress
from trimtab_lab.demo.balance import COMPUTING, WAITING
from trimtab_lab.demo.panels import RaceScreen, line, render
from trimtab_lab.demo.payments import CARDS, HOT_CARDS, card_name, hot_first, write_payments
from trimtab_lab.demo.race import BALANCED, HASHED, NAMES, Course, Race, run_race
from trimtab_lab.demo.race_picture import draw_races
from trimtab_lab.demo.scoring import scoring_sql
from trimtab_lab.demo.seed import SEED, percentiles, predicted_gains, typical_seed
from trimtab_lab.demo.steps import step
from trimtab_lab.demo.verdict import ComputingVerdict, WaitingVerdict

FILES = 6
UNEVEN, LEVEL = (400.0, 100.0, 50.0, 50.0), (150.0, 150.0, 150.0, 150.0)
WAITS = Race("waiting", engines=4, rows=12_000, files=FILES, wait_us=50)
COMPUTES = Race("computing", engines=4, rows=12_000, files=FILES, layers=2)


def batch(number: int, loads_ms: Sequence[float], *, moved: int = 0, events: int = 2000) -> BatchProgress:
    took_ms = max(loads_ms) + 100
    return BatchProgress(
        stream="payments",
        batch=number,
        events=events,
        late=0,
        quarantined=0,
        matches={"unusual": 3},
        watermark_us=None,
        batch_ms=took_ms,
        stages_ms={},
        engines=tuple(EngineProgress(n, 500, load + 20, 256, 0, worked_ms=load) for n, load in enumerate(loads_ms)),
        moved=moved,
        state_bytes=0,
        state_bytes_written=0,
        finished_at_s=(number + 1) * took_ms / 1e3,
    )


def history(loads_ms: Sequence[float], batches: int = FILES, moved: int = 0) -> tuple[BatchProgress, ...]:
    return tuple(batch(number, loads_ms, moved=moved if number == 3 else 0) for number in range(batches))


HISTORIES = {HASHED: history(UNEVEN), BALANCED: history(LEVEL, moved=12)}
COURSES = {name: Course.of(batches) for name, batches in HISTORIES.items()}
SAME_COURSES = dict.fromkeys(NAMES, COURSES[HASHED])


# The stream ----------------------------------------------------------------------------------------


def test_four_cards_make_nine_payments_in_ten(tmp_path: Path) -> None:
    whole = write_payments(tmp_path, 12_000, 6, seed=1)
    assert whole.equals(write_payments(tmp_path, 12_000, 6, seed=1))
    counts = Counter(whole["card"].to_pylist())
    assert 250 < len(counts) <= CARDS
    hot = [counts.pop(card_name(card)) / 12_000 for card in hot_first(1)[:HOT_CARDS].tolist()]
    assert hot == pytest.approx([0.225] * 4, abs=0.02)
    assert max(counts.values()) < 20


def test_the_files_are_the_stream_in_its_order(tmp_path: Path) -> None:
    whole = write_payments(tmp_path, 1_000, 7, seed=1)
    files = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [file.name for file in files] == [f"payments-{n:03d}.parquet" for n in range(7)]
    assert pa.concat_tables(pq.read_table(file) for file in files).equals(whole)
    times = whole["ts"].to_numpy()
    assert (times[1:] > times[:-1]).all()


@pytest.mark.parametrize("engines", [COMPUTING.engines, WAITING.engines])
def test_the_stream_is_a_typical_one(engines: int) -> None:
    gains = predicted_gains(engines, range(2000))
    assert 45 < percentiles(gains)[SEED] < 55
    assert gains.max() > 1.5 * gains.min()  # what hashing loses is random: some seeds would show far more


def test_the_seed_is_chosen_by_the_median_and_by_nothing_else() -> None:
    assert typical_seed(range(1000), (COMPUTING.engines, WAITING.engines)) == SEED


def zipf(exponent: float) -> npt.NDArray[np.float64]:
    weights = np.arange(1, CARDS + 1) ** -exponent
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize(
    ("shares", "on_4", "on_2"),  # the table in docs/balancing.md
    [
        (None, 1.90, 1.45),
        (zipf(0.8), 1.28, 1.09),
        (zipf(1.0), 1.46, 1.16),
        (zipf(1.2), 1.70, 1.25),
        (zipf(1.5), 1.33, 1.40),
    ],
)
def test_what_a_typical_stream_gains_at_best(shares: npt.NDArray[np.float64] | None, on_4: float, on_2: float) -> None:
    gains = [float(np.median(predicted_gains(engines, range(1000), shares))) for engines in (4, 2)]
    assert gains == pytest.approx([on_4, on_2], abs=0.006)


def test_what_is_unusual_does_not_depend_on_cuts_nor_on_waiting(tmp_path: Path) -> None:
    payments = write_payments(tmp_path, 3_000, 3, seed=1)

    def rows(sql: str, cuts: Sequence[int] = ()) -> list[str]:
        return sorted(map(str, evaluate(sql, {"payments": payments}, cuts=list(cuts), event_time="ts").to_pylist()))

    cuts = [1, 700, 701, 2500]
    assert rows(scoring_sql(wait_us=1), cuts) == rows(scoring_sql())
    scored = rows(scoring_sql(layers=3))
    assert rows(scoring_sql(layers=3), cuts) == scored
    assert 5 < len(scored) < 100
    once = evaluate(scoring_sql(layers=3), {"payments": payments}, event_time="ts")
    assert min(row["amount"] // row["usual"] for row in once.to_pylist()) >= 8
    assert len(set(once["score"].to_pylist())) > 3


# The view ------------------------------------------------------------------------------------------


def text(batches: dict[str, tuple[BatchProgress, ...]], width: int) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(render(batches, FILES, width))
    return captured.get()


def test_both_jobs_are_side_by_side_with_bars_of_one_scale() -> None:
    shown = text(HISTORIES, 120).splitlines()
    assert "hashed: keys stay" in shown[0]
    assert "balanced: key groups move" in shown[0]
    first = next(each for each in shown if "engine 0" in each)
    left, right = first[:60], first[60:]
    assert "400 ms" in left
    assert "150 ms" in right
    assert left.count("█") == pytest.approx(right.count("█") * 400 / 150, abs=3)
    joined = "\n".join(shown)
    assert "6 of 6" in joined
    assert "RSTD    97 %" in joined
    assert "RSTD    0 %" in joined
    assert "12 key groups" in joined
    assert "done in 2.5 s" in joined
    assert "done in 1.2 s" in joined


def test_a_narrow_terminal_has_one_below_the_other() -> None:
    shown = text(HISTORIES, 60)
    assert shown.index("hashed") < shown.index("done in 2.5 s") < shown.index("balanced:")


@given(st.integers(1, 200), st.integers(0, FILES), st.integers(0, FILES))
def test_no_terminal_is_too_small(width: int, left: int, right: int) -> None:
    lines = text({HASHED: history(UNEVEN, left), BALANCED: history(LEVEL, right)}, width).splitlines()
    assert lines
    assert max(map(cell_len, lines)) <= width


def test_before_the_first_batch_there_is_something_to_see() -> None:
    shown = text({HASHED: ()}, 100)
    assert "waiting for the first batch" in shown
    assert "waits for its turn" in shown


def test_without_a_terminal_every_batch_is_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = RaceScreen(FILES, plain=True)
    with screen.shown():
        screen.update({HASHED: HISTORIES[HASHED][:2]})
        screen.update({HASHED: HISTORIES[HASHED][:2], BALANCED: HISTORIES[BALANCED][:5]})
        screen.update(HISTORIES)
    printed = capsys.readouterr().out.splitlines()
    assert len([each for each in printed if " of 6: 2,000 events in " in each]) == 12
    assert len([each for each in printed if "  starts; " in each]) == 2
    assert line(BALANCED, HISTORIES[BALANCED][3], FILES) == (
        "balanced  batch  4 of 6: 2,000 events in 250 ms; engines 150 150 150 150 ms; RSTD 0 %; 12 key groups moved"
    )
    assert "\x1b" not in "".join(printed)


def test_a_step_says_what_it_does_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    with step("Starting Spark", plain=True):
        assert capsys.readouterr().out == "Starting Spark ...\n"
    assert capsys.readouterr().out.startswith("Starting Spark: done in 0.")


# The race ------------------------------------------------------------------------------------------


class FakeRun:
    """A job that does one batch each time it is waited for."""

    def __init__(self, batches: Sequence[BatchProgress]) -> None:
        self._batches, self._done = batches, 0

    @property
    def history(self) -> Sequence[BatchProgress]:
        return self._batches[: self._done]

    @property
    def progress(self) -> Progress:
        return Progress(batches=self._done)

    def await_termination(self, _timeout_s: float | None = None) -> bool:
        self._done = min(self._done + 1, len(self._batches))
        return self._done == len(self._batches)

    def stop(self) -> None:
        raise AssertionError("the race must not stop it")


class Failing(FakeRun):
    """A job that fails."""

    def await_termination(self, _timeout_s: float | None = None) -> bool:
        raise RuntimeError("out of order")


def test_the_race_ends_with_the_slower_one(capsys: pytest.CaptureFixture[str]) -> None:
    end = dataclasses.replace(batch(FILES, LEVEL, events=0), finished_at_s=99.0)  # the input's end isn't work
    batches = {HASHED: (*HISTORIES[HASHED], end), BALANCED: HISTORIES[BALANCED]}
    found = run_race(lambda name: FakeRun(batches[name]), WAITS.turns, RaceScreen(FILES, plain=True))
    assert found == COURSES
    hashed, balanced = found[HASHED], found[BALANCED]
    assert (hashed.moved, balanced.moved) == (0, 12)
    assert (hashed.spent_s, balanced.spent_s) == pytest.approx((2.5, 1.25))
    assert (hashed.spark_share, balanced.spark_share) == pytest.approx((20.0, 40.0))
    assert balanced.rates == pytest.approx([8000.0] * FILES)
    assert hashed.mean_rstd > 90
    assert balanced.mean_rstd == 0
    assert capsys.readouterr().out.count("hashed    batch") == FILES


@pytest.mark.parametrize(("race", "at_once"), [(WAITS, 2), (COMPUTES, 1)])
def test_jobs_run_at_once_only_if_they_wait(race: Race, at_once: int) -> None:
    runs: list[FakeRun] = []
    running: list[int] = []

    def start(name: str) -> FakeRun:
        running.append(1 + sum(len(run.history) < FILES for run in runs))
        runs.append(FakeRun(HISTORIES[name]))
        return runs[-1]

    run_race(start, race.turns, RaceScreen(FILES, plain=True))
    assert len(runs) == 2
    assert max(running) == at_once


def test_what_a_job_fails_with_ends_the_race() -> None:
    with pytest.raises(RuntimeError, match="out of order"):
        run_race(lambda _: Failing(HISTORIES[HASHED]), WAITS.turns, RaceScreen(FILES, plain=True))


# The result ----------------------------------------------------------------------------------------


def test_the_headline_claims_what_was_measured() -> None:
    faster, same = WaitingVerdict(WAITS, COURSES), WaitingVerdict(WAITS, SAME_COURSES)
    slower = WaitingVerdict(WAITS, {HASHED: COURSES[BALANCED], BALANCED: COURSES[HASHED]})
    assert faster.headline(is_same=True).endswith(": 2.00 times as fast")
    assert same.headline(is_same=True) == "Moving key groups made this run no faster (1.00 times)"
    assert slower.headline(is_same=True) == "Moving key groups made this run no faster (0.50 times)"
    for verdict in (faster, same, slower):
        assert verdict.headline(is_same=False) == "The answers differ, which is a bug"
    assert "balanced    1.2 s, of which Spark's part 40 %; RSTD 0 % on average; 12 key groups moved" in faster.text


def test_the_ceiling_is_an_equal_part_or_the_hottest_keys() -> None:
    even = ComputingVerdict(COMPUTES, COURSES, hottest=0.2)
    assert even.since == 3  # before, nothing had moved
    assert (even.share(HASHED), even.share(BALANCED)) == pytest.approx((37.5, 100.0))
    assert even.shares(HASHED) == pytest.approx([37.5] * FILES)
    hot = ComputingVerdict(COMPUTES, {HASHED: COURSES[HASHED], BALANCED: COURSES[HASHED]}, hottest=0.5)
    assert hot.since == 1
    assert hot.share(HASHED) == pytest.approx(75.0)
    assert "balanced    0.5 s, at least 0.5 s: 100 % of what the hottest key allows" in even.text


@pytest.mark.parametrize("courses", [COURSES, SAME_COURSES], ids=["moved", "not moved"])
def test_the_picture_is_drawn(tmp_path: Path, courses: dict[str, Course]) -> None:
    path = tmp_path / "balance.png"
    computing = ComputingVerdict(COMPUTES, courses, hottest=0.25)
    draw_races(WaitingVerdict(WAITS, courses), computing, path, is_same=True)
    picture = path.read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1600, 760)
    assert len(picture) < 150_000


def test_rows_are_for_the_other_demonstrations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--rows", "10", "--out", str(tmp_path)]) == 1
    assert "add --patterns or --without-spark" in capsys.readouterr().err
