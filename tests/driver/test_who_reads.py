"""Who reads a batch: what is small and known is read by the driver or the engines, and no loop swings between them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.control.batch_plant import BatchPlant, share_within
from trimtab.control.intake import Intake
from trimtab.control.intake_controller import IntakeController
from trimtab.driver.reading import Read, SourceReader
from trimtab.driver.who_reads import FEW_ROWS, SMALL_BYTES, SMALL_ROWS, Reader, Several, who_reads
from trimtab.sources.source import Range

DRIVER, TASKS, ENGINES = Reader
HALF_A_SECOND = IntakeController(Intake(batch_s=0.5))


@pytest.mark.parametrize(
    ("rows", "size_bytes", "waiting", "before", "reader"),
    [
        (SMALL_ROWS, SMALL_BYTES, 0, TASKS, DRIVER),
        (SMALL_ROWS + 1, 1_000, 0, DRIVER, TASKS),
        (100, SMALL_BYTES + 1, 0, DRIVER, TASKS),
        (100, math.inf, 0, DRIVER, TASKS),
        (math.inf, math.inf, 0, DRIVER, TASKS),
        (10_000, 1_000, 10_000, TASKS, DRIVER),
        (10_000, 1_000, 10_001, TASKS, TASKS),
        (10_000, 1_000, 10_001, DRIVER, DRIVER),
        (FEW_ROWS, 1_000, math.inf, TASKS, DRIVER),
    ],
)
def test_the_driver_reads_what_is_small_and_known_but_takes_over_from_tasks_only_where_it_has_to(
    rows: float, size_bytes: float, waiting: float, before: Reader, reader: Reader
) -> None:
    assert who_reads(Read((), rows=rows, waiting=waiting, size_bytes=size_bytes), before) is reader


@pytest.mark.parametrize(
    ("rows", "before", "several", "reader"),
    [
        (250_000, TASKS, Several(True, 2e-7), ENGINES),
        (250_000, TASKS, Several(False, 2e-7), TASKS),
        (250_000, TASKS, Several(True), TASKS),
        (1_000, DRIVER, Several(True, 2e-7), ENGINES),
        (math.inf, TASKS, Several(True, 2e-7), TASKS),
        (500_000, TASKS, Several(True, 2e-7), TASKS),
        (500_000, ENGINES, Several(True, 2e-7), ENGINES),
        (1_000_000, ENGINES, Several(True, 2e-7), TASKS),
        (1_000, TASKS, Several(True, 1e-3), DRIVER),
    ],
)
def test_engines_read_what_is_near_and_read_in_a_moment(
    rows: float, before: Reader, several: Several, reader: Reader
) -> None:
    assert who_reads(Read((), rows=rows, size_bytes=20 * rows), before, several) is reader


def test_engines_do_not_read_where_more_rows_wait_than_a_batch_takes() -> None:
    several = Several(True, 2e-7)
    for before in (TASKS, ENGINES):
        assert who_reads(Read((), rows=250_000, waiting=250_001), before, several) is TASKS
        assert who_reads(Read((), rows=250_000, waiting=250_000), before, several) is ENGINES


def test_a_batch_that_took_long_to_read_counts_half() -> None:
    known = Several(True).after(0, 5.0).after(1_000, 3.0)
    assert known == Several(True, 0.003)
    assert known.after(1_000, 1.0).a_row_s == 0.001
    assert known.after(1_000, 1.0).after(1_000, 3.0).a_row_s == 0.002


def test_ten_thousand_messages_of_100_kb_are_never_read_by_the_driver() -> None:
    reader = SourceReader(1.0)
    first = reader.next_read({"a": 0}, {"a": 10_000}, 10_000)
    assert who_reads(first, DRIVER) is TASKS, "nothing is known of them"
    reader.took(first.ranges, 10_000, {}, 10_000 * 100_000)
    assert who_reads(reader.next_read({"a": 10_000}, {"a": 10_100}, 10_000), DRIVER) is TASKS
    assert who_reads(reader.next_read({"a": 10_000}, {"a": 10_050}, 10_000), TASKS) is DRIVER
    reader.took((Range("a", 10_000, 10_050),), 50, {}, 50 * 100)
    assert who_reads(reader.next_read({"a": 10_050}, {"a": 20_050}, 10_000), TASKS) is DRIVER


Decide = Callable[[Read, Reader], Reader]


def by_rows_alone(read: Read, _: Reader) -> Reader:
    return DRIVER if read.rows <= SMALL_ROWS else TASKS


@dataclass
class TwoWays(BatchPlant):
    """A stream in which the driver reads some batches, and saves the time of a stage."""

    decide: Decide = who_reads
    by_driver_s: float = 0.05
    by_tasks_s: float = 0.25
    readers: list[Reader] = field(default_factory=lambda: [TASKS])

    def run(self, controller: IntakeController, batches: int) -> list[float]:
        times = list[float]()
        for _ in range(batches):
            limit = controller.start().limit_rows if self.state is None else self.state.limit_rows
            rows = min(limit, self.backlog)
            read = Read((), rows=rows, waiting=self.backlog - rows, size_bytes=20 * rows)
            self.readers.append(self.decide(read, self.readers[-1]))
            self.fixed_s = self.by_driver_s if self.readers[-1] is DRIVER else self.by_tasks_s
            times += super().run(controller, 1)
        return times


def shares(decide: Decide) -> list[float]:
    """The shares near half a second of loops whose limit is below 20,000 on one way and above it on the other one."""
    dice = random.Random(5)
    plants = [TwoWays(a_row_s=dice.uniform(13e-6, 22e-6), seed=seed, decide=decide) for seed in range(30)]
    return [share_within(plant.run(HALF_A_SECOND, 60)[10:], 0.5) for plant in plants]


def test_a_loop_whose_limit_is_near_20_000_rows_does_not_swing_between_the_ways() -> None:
    assert min(shares(who_reads)) >= 0.9
    swinging = shares(by_rows_alone)
    assert sum(swinging) / len(swinging) < 0.85, "else there would be nothing to be mended"


def test_a_loop_that_tasks_would_lead_to_the_fewest_rows_is_led_by_the_driver() -> None:
    plants = {decide: TwoWays(a_row_s=2e-5, by_tasks_s=0.6, decide=decide) for decide in (who_reads, lambda *_: TASKS)}
    rows_per_s = list[float]()
    for plant in plants.values():
        times = plant.run(HALF_A_SECOND, 100)
        rows_per_s.append(sum(seen.rows for seen in plant.observed) / sum(times))
    assert rows_per_s[0] > 5 * rows_per_s[1]


def test_a_stream_that_keeps_up_is_read_by_the_driver() -> None:
    plant = TwoWays(a_row_s=10e-6, backlog=5_000, rate_per_s=20_000)
    plant.run(HALF_A_SECOND, 60)
    assert set(plant.readers[1:]) == {DRIVER}
