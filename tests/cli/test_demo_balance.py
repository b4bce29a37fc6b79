"""`trimtab demo`: its stream and operator, both jobs side by side, and the picture. On Spark: test_demo_on_spark."""

from __future__ import annotations

import dataclasses
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from trimtab.cli.demo_balance import Size
from trimtab.cli.demo_panels import RaceScreen, line, render
from trimtab.cli.demo_payments import CARDS, order_of_cards, write_payments
from trimtab.cli.demo_race import BALANCED, HASHED, Course, run_both
from trimtab.cli.demo_race_picture import draw_race
from trimtab.cli.demo_scoring import QUERY
from trimtab.cli.main import main
from trimtab.evaluate import evaluate
from trimtab.runtime.progress import BatchProgress, EngineProgress, Progress

FILES = 6
PHASES = (0, 3)
UNEVEN, LEVEL = (400.0, 100.0, 50.0, 50.0), (150.0, 150.0, 150.0, 150.0)


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


COURSES = {HASHED: history(UNEVEN), BALANCED: history(LEVEL, moved=12)}


# The stream ----------------------------------------------------------------------------------------


def test_in_every_phase_other_cards_are_hot_and_none_is_too_hot_for_an_engine(tmp_path: Path) -> None:
    whole = write_payments(tmp_path, 12_000, 6, 3, seed=1)
    assert whole.equals(write_payments(tmp_path, 12_000, 6, 3, seed=1))
    hottest = []
    for phase in range(3):
        cards = Counter(whole["card"].slice(phase * 4000, 4000).to_pylist())
        ((card, count),) = cards.most_common(1)
        assert card == f"card-{order_of_cards(phase, 1)[0]:03d}"
        assert 0.15 < count / 4000 < 0.25
        assert 200 < len(cards) <= CARDS
        hottest.append(card)
    assert len(set(hottest)) == 3


def test_the_files_are_the_stream_in_its_order(tmp_path: Path) -> None:
    whole = write_payments(tmp_path, 1_000, 7, 2, seed=1)
    files = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [file.name for file in files] == [f"payments-{n:03d}.parquet" for n in range(7)]
    assert pa.concat_tables(pq.read_table(file) for file in files).equals(whole)
    times = whole["ts"].to_numpy()
    assert (times[1:] > times[:-1]).all()


def test_what_is_unusual_does_not_depend_on_cuts_nor_on_the_model(tmp_path: Path) -> None:
    payments = write_payments(tmp_path, 3_000, 3, 2, seed=1)
    once = evaluate(QUERY.format(model_us=0), {"payments": payments}, event_time="ts")
    assert 5 < once.num_rows < 100
    assert min(row["amount"] // row["usual"] for row in once.to_pylist()) >= 8
    cut = evaluate(QUERY.format(model_us=1), {"payments": payments}, cuts=[1, 700, 701, 2500], event_time="ts")
    assert sorted(map(str, cut.to_pylist())) == sorted(map(str, once.to_pylist()))


def test_phases_begin_where_the_stream_changes() -> None:
    assert Size(files=33, phases=3).starts == [0, 11, 22]
    assert Size().starts == [0, 9, 18]
    assert Size(files=7, phases=2).starts == [0, 4]


# The view ------------------------------------------------------------------------------------------


def text(courses: dict[str, tuple[BatchProgress, ...]], width: int) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(render(courses, FILES, PHASES, width))
    return captured.get()


def test_both_jobs_are_side_by_side_with_bars_of_one_scale() -> None:
    shown = text(COURSES, 120).splitlines()
    assert "hashed: keys stay" in shown[0]
    assert "balanced: key groups move" in shown[0]
    first = next(each for each in shown if "engine 0" in each)
    left, right = first[:60], first[60:]
    assert "400 ms" in left
    assert "150 ms" in right
    assert left.count("█") == pytest.approx(right.count("█") * 400 / 150, abs=3)
    joined = "\n".join(shown)
    assert "6 of 6, phase 2 of 2" in joined
    assert "RSTD    97 %" in joined
    assert "RSTD    0 %" in joined
    assert "12 key groups" in joined
    assert "done in 2.5 s" in joined
    assert "done in 1.2 s" in joined


def test_a_narrow_terminal_has_one_below_the_other() -> None:
    shown = text(COURSES, 60)
    assert shown.index("hashed") < shown.index("done in 2.5 s") < shown.index("balanced:")


@given(st.integers(1, 200), st.integers(0, FILES), st.integers(0, FILES))
def test_no_terminal_is_too_small(width: int, left: int, right: int) -> None:
    lines = text({HASHED: history(UNEVEN, left), BALANCED: history(LEVEL, right)}, width).splitlines()
    assert lines
    assert max(map(cell_len, lines)) <= width


def test_before_the_first_batch_there_is_something_to_see() -> None:
    assert text({HASHED: (), BALANCED: ()}, 100).count("waiting for the first batch") == 2


def test_without_a_terminal_every_batch_is_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = RaceScreen(FILES, PHASES, plain=True)
    with screen.shown():
        screen.update({HASHED: COURSES[HASHED][:2], BALANCED: COURSES[BALANCED][:5]})
        screen.update(COURSES)
    printed = capsys.readouterr().out.splitlines()
    assert len([each for each in printed if " of 6: 2,000 events in " in each]) == 12
    assert printed.count("-- balanced: other cards are hot from here on") == 1
    assert line(BALANCED, COURSES[BALANCED][3], FILES) == (
        "balanced  batch  4 of 6: 2,000 events in 250 ms; engines 150 150 150 150 ms; RSTD 0 %; 12 key groups moved"
    )
    assert "\x1b" not in "".join(printed)


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
        raise AssertionError("nobody stops it")


class Failing(FakeRun):
    """A job that fails."""

    def await_termination(self, _timeout_s: float | None = None) -> bool:
        raise RuntimeError("out of order")


def test_the_race_ends_with_the_slower_one(capsys: pytest.CaptureFixture[str]) -> None:
    end = dataclasses.replace(batch(FILES, LEVEL, events=0), finished_at_s=99.0)  # the input's end isn't work
    batches = {HASHED: (*COURSES[HASHED], end), BALANCED: COURSES[BALANCED]}
    found = run_both(lambda name: FakeRun(batches[name]), RaceScreen(FILES, PHASES, plain=True))
    assert list(found) == [HASHED, BALANCED]
    hashed, balanced = found[HASHED], found[BALANCED]
    assert (hashed.events, balanced.events, hashed.moved, balanced.moved) == (12_000, 12_000, 0, 12)
    assert (hashed.spent_s, balanced.spent_s) == pytest.approx((2.5, 1.25))
    assert balanced.rates == pytest.approx([8000.0] * FILES)
    assert hashed.mean_rstd > 90
    assert balanced.mean_rstd == 0
    assert capsys.readouterr().out.count("hashed    batch") == FILES


def test_what_a_job_fails_with_ends_the_race() -> None:
    with pytest.raises(RuntimeError, match="out of order"):
        run_both(lambda _: Failing(COURSES[HASHED]), RaceScreen(FILES, PHASES, plain=True))


@pytest.mark.parametrize("is_same", [True, False])
def test_the_picture_is_drawn(tmp_path: Path, is_same: bool) -> None:
    courses = {name: Course(batches) for name, batches in COURSES.items()}
    draw_race(courses, PHASES, 15.0, tmp_path / "balance.png", is_same=is_same)
    picture = (tmp_path / "balance.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1600, 760)
    assert len(picture) < 150_000


def test_rows_are_for_the_other_demonstrations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--rows", "10", "--out", str(tmp_path)]) == 1
    assert "add --patterns or --without-spark" in capsys.readouterr().err
