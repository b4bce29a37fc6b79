"""The live view, read as text: what it shows, at every width."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from trimtab.cli.batch_lines import batch_line
from trimtab.cli.live_view import bar, minute_of_rates, render, sparkline, stacked_bar
from trimtab.cli.texts import duration_text, read_duration_s, time_text
from trimtab.control.intake import IntakeLimit
from trimtab.deciding.coordinator import Decision
from trimtab.driver.progress import BatchProgress, EngineProgress, Progress
from trimtab.errors import InputError

NEW_YEAR_US = 1_767_225_600_000_000
ENGINES = (
    EngineProgress(engine=0, events=9_000, busy_ms=240.0, groups=512, state_bytes=30_000),
    EngineProgress(engine=1, events=3_500, busy_ms=60.0, groups=512, state_bytes=15_678),
)
BATCH = BatchProgress(
    stream="ticks",
    batch=79,
    events=12_500,
    late=2,
    quarantined=1,
    matches={"drops": 3, "load": 0},
    watermark_us=NEW_YEAR_US,
    batch_ms=400.0,
    stages_ms={"plan": 20.0, "engines": 300.0, "sinks": 50.0, "commit": 30.0},
    engines=ENGINES,
    moved=17,
    state_bytes=1_234_567,
    state_bytes_written=45_678,
    finished_at_s=NEW_YEAR_US / 1e6 + 4.5,
)
PROGRESS = Progress(
    streams={"ticks": BATCH},
    batches=80,
    events=1_000_000,
    late=41,
    quarantined=7,
    matches={"drops": 1_234, "load": 55},
    events_per_s=31_250.7,
)


def text(progress: Progress, width: int, history: Sequence[BatchProgress] = (BATCH,), note: str = "") -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(render(progress, history, width, title="job.toml", note=note))
    return captured.get()


def words(shown: str) -> str:
    """The text without frame and line breaks."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", shown)


@pytest.mark.parametrize("width", [80, 120])
def test_everything_that_a_job_reports_is_shown(width: int) -> None:
    shown = words(text(PROGRESS, width, note="Ctrl-C stops"))
    for part in (
        "job.toml",
        "31,250/s",
        "1,000,000 in all",
        "last minute",
        "batch 79 400 ms for 12,500 events",
        "plan 20 ms",
        "engines 300 ms",
        "sinks 50 ms",
        "commit 30 ms",
        "2026-01-01 00:00:00.000 UTC 4.5 s behind the clock",
        "drops 1,234 +3 load 55",
        "late 41 quarantined 7",
        "1.2 MB live, 45.7 kB written, 17 key groups moved",
        "240 ms 9,000 512",
        "60 ms 3,500 512",
        "Ctrl-C stops",
    ):
        assert part in shown


def test_bars_are_as_long_as_engines_are_busy() -> None:
    rows = [line for line in text(PROGRESS, 80).splitlines() if re.match(r"│ +\d ", line)]
    busy, idle = (line.count("█") for line in rows)
    assert busy == pytest.approx(4 * idle, abs=4)
    assert busy > 20


def test_the_stages_share_one_bar() -> None:
    drawing = stacked_bar(list(BATCH.stages_ms.values()), ["cyan", "blue", "magenta", "yellow"], 40)
    assert drawing.plain == "█" * 40
    assert {str(span.style): span.end - span.start for span in drawing.spans} == {
        "cyan": 2,
        "blue": 30,
        "magenta": 5,
        "yellow": 3,
    }


@given(st.integers(1, 200), st.integers(0, 40), st.booleans())
def test_no_terminal_is_too_small(width: int, engines: int, is_new: bool) -> None:
    many = tuple(dataclasses.replace(ENGINES[0], engine=n, busy_ms=float(n)) for n in range(engines))
    last = dataclasses.replace(BATCH, engines=many, watermark_us=None if is_new else NEW_YEAR_US, matches={})
    progress = dataclasses.replace(PROGRESS, streams={"ticks": last, "orders": BATCH})
    lines = text(progress, width, [last] * 3).splitlines()
    assert lines
    assert max(map(cell_len, lines)) <= width


def test_a_job_without_batches_says_so() -> None:
    shown = words(text(Progress(), 80, []))
    assert "waiting for the first one" in shown
    assert "matches none yet" in shown
    assert "engine" not in shown


def test_streams_are_shown_one_by_one_and_their_engines_added_up() -> None:
    orders = dataclasses.replace(BATCH, stream="orders", batch=4, watermark_us=None)
    shown = words(text(dataclasses.replace(PROGRESS, streams={"ticks": BATCH, "orders": orders}), 100))
    assert "batch 79 ticks 400 ms" in shown
    assert "batch 4 orders 400 ms" in shown
    assert "watermark orders none yet" in shown
    assert "480 ms 18,000 1,024" in shown


def test_only_the_busiest_of_many_engines_are_shown() -> None:
    many = tuple(dataclasses.replace(ENGINES[0], engine=n, busy_ms=float(n)) for n in range(40))
    shown = text(dataclasses.replace(PROGRESS, streams={"ticks": dataclasses.replace(BATCH, engines=many)}), 80)
    assert "and 24 engines that were less busy" in shown
    assert re.search(r"│ +39 ", shown)
    assert not re.search(r"│ +23 ", shown)


def test_the_distance_of_a_replay_to_the_clock_is_not_shown() -> None:
    old = dataclasses.replace(BATCH, watermark_us=0)
    shown = text(dataclasses.replace(PROGRESS, streams={"ticks": old}), 80)
    assert "1970-01-01" in shown
    assert "the clock" not in shown


def test_the_sparkline_spreads_a_batch_over_its_duration() -> None:
    slow = dataclasses.replace(BATCH, events=6_000, batch_ms=30_000.0, finished_at_s=100.0)
    assert minute_of_rates([slow], 6) == pytest.approx([0, 0, 0, 200, 200, 200])
    quick = dataclasses.replace(BATCH, events=50, batch_ms=500.0, finished_at_s=145.0)
    assert minute_of_rates([slow, quick], 6) == pytest.approx([200, 100, 0, 0, 0, 5])
    assert minute_of_rates([slow], 6, now_s=120.0) == pytest.approx([0, 200, 200, 200, 0, 0])
    assert minute_of_rates([slow], 6, now_s=200.0) == [0] * 6
    assert minute_of_rates([], 6) == []


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 20_000), st.floats(0, 200)), max_size=8), st.integers(1, 40)
)
def test_the_sparkline_never_makes_events_up(batches: list[tuple[int, float, float]], cells: int) -> None:
    history = [
        dataclasses.replace(BATCH, events=events, batch_ms=batch_ms, finished_at_s=at)
        for events, batch_ms, at in batches
    ]
    rates = minute_of_rates(history, cells)
    shown = sum(rates) * 60 / cells
    assert shown <= sum(batch.events for batch in history) * (1 + 1e-6) + 1e-6
    if history and max(at for _, _, at in batches) - min(at - ms / 1000 for _, ms, at in batches) < 59:
        assert shown == pytest.approx(sum(batch.events for batch in history), rel=1e-3, abs=1e-3)


@given(st.floats(0, 1), st.integers(0, 50))
def test_a_bar_fits_its_cells(share: float, cells: int) -> None:
    drawn = bar(share, cells)
    assert len(drawn) <= max(cells, 1)
    assert bool(drawn) == (share > 0)


def test_zeros_are_drawn_as_spaces() -> None:
    assert sparkline([0, 0]) == "  "
    assert sparkline([]) == ""


@pytest.mark.parametrize(
    ("length_ms", "shown"),
    [
        (0, "0 ms"),
        (0.04, "0 ms"),
        (9.96, "10 ms"),
        (999, "999 ms"),
        (9_940, "9.9 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (3_660_000, "1 h 1 min"),
    ],
)
def test_durations_have_few_digits(length_ms: float, shown: str) -> None:
    assert duration_text(length_ms) == shown


@pytest.mark.parametrize("typed", ["", "30", "soon", "-3s", "3 parsecs"])
def test_text_that_is_not_a_length_of_time_is_refused(typed: str) -> None:
    with pytest.raises(InputError):
        read_duration_s(typed)


@pytest.mark.parametrize(("typed", "seconds"), [("30s", 30), ("5m", 300), ("250ms", 0.25), ("2 hours", 7200)])
def test_lengths_of_time_may_be_short(typed: str, seconds: float) -> None:
    assert read_duration_s(typed) == seconds


def test_times_outside_the_calendar_are_shown_as_numbers() -> None:
    assert time_text(2**63 - 1) == "9223372036854775807 us"


LIMITED = dataclasses.replace(
    BATCH,
    decision=Decision(
        78, 5.0, 1.0, 1.0, 50.0, intake=IntakeLimit(rows=25_000, held="batch_s", reference=0.5, measure=0.52)
    ),
    backlog=1_200,
)


@pytest.mark.parametrize("width", [30, 80, 120])
def test_the_intake_of_a_stream_that_trimtab_reads_is_shown(width: int) -> None:
    shown = words(text(dataclasses.replace(PROGRESS, streams={"ticks": LIMITED}), width))
    assert "up to 25,000 rows: batch time 520 ms of 500 ms, 1,200 rows wait" in shown
    both = dataclasses.replace(PROGRESS, streams={"ticks": LIMITED, "orders": BATCH})
    assert words(text(both, 120)).count("intake") == 1


def test_a_stream_that_spark_reads_has_no_intake() -> None:
    assert "intake" not in text(PROGRESS, 80)
    assert "intake" not in batch_line(BATCH)


def test_the_line_of_a_batch_has_its_intake() -> None:
    line = batch_line(LIMITED)
    assert "; intake up to 25,000 rows: batch time 520 ms of 500 ms; 1,200 rows wait; watermark" in line
    assert "intake" not in batch_line(dataclasses.replace(LIMITED, decision=None))
