"""Who reads a batch: what is small and known is read by the driver, and a loop never swings between the two ways."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.control.batch_plant import BatchPlant, share_within
from trimtab.control.intake import Intake
from trimtab.control.intake_controller import IntakeController
from trimtab.driver.reading import Read, SourceReader
from trimtab.driver.who_reads import SMALL_BYTES, SMALL_ROWS, Reader, who_reads
from trimtab.sources.source import Range

DRIVER, TASKS = Reader.DRIVER, Reader.TASKS


@pytest.mark.parametrize(
    ("rows", "size_bytes", "waiting", "most_rows", "reader"),
    [
        (SMALL_ROWS, SMALL_BYTES, 0, 10**7, DRIVER),
        (SMALL_ROWS + 1, 1_000, 0, 10**7, TASKS),
        (100, SMALL_BYTES + 1, 0, 10**7, TASKS),
        (100, math.inf, 0, 10**7, TASKS),
        (math.inf, math.inf, 0, None, TASKS),
        (10_000, 1_000, 10_000, 10**7, DRIVER),
        (10_000, 1_000, 10_001, 10**7, TASKS),
        (10_000, 1_000, math.inf, SMALL_ROWS, DRIVER),
        (10_000, 1_000, 10_001, None, DRIVER),
    ],
)
def test_the_driver_reads_what_is_small_and_known_unless_many_more_rows_wait(
    rows: float, size_bytes: float, waiting: float, most_rows: int | None, reader: Reader
) -> None:
    intake = None if most_rows is None else Intake(max_rows=most_rows)
    assert who_reads(Read((), rows=rows, waiting=waiting, size_bytes=size_bytes), intake) is reader


def test_ten_thousand_messages_of_100_kb_are_never_read_by_the_driver() -> None:
    reader = SourceReader(1.0)
    first = reader.next_read({"a": 0}, {"a": 10_000}, 10_000)
    assert who_reads(first, Intake()) is TASKS, "nothing is known of them"
    reader.took(first.ranges, 10_000, {}, 10_000 * 100_000)
    assert who_reads(reader.next_read({"a": 10_000}, {"a": 10_100}, 10_000), Intake()) is TASKS
    assert who_reads(reader.next_read({"a": 10_000}, {"a": 10_050}, 10_000), Intake()) is DRIVER
    reader.took((Range("a", 10_000, 10_050),), 50, {}, 50 * 100)
    assert who_reads(reader.next_read({"a": 10_050}, {"a": 20_050}, 10_000), Intake()) is DRIVER


@dataclass
class TwoWays(BatchPlant):
    """A stream in which the driver reads some batches, in less time as long as they are small."""

    decide: Callable[[Read], Reader] = lambda _: TASKS

    def run(self, controller: IntakeController, batches: int) -> list[float]:
        times = list[float]()
        for _ in range(batches):
            limit = controller.start().limit_rows if self.state is None else self.state.limit_rows
            rows = min(limit, self.backlog)
            by = self.decide(Read((), rows=rows, waiting=self.backlog - rows, size_bytes=20 * rows))
            self.fixed_s, self.a_row_s = (0.05, self.a_row_s) if by is DRIVER else (0.25, self.a_row_s)
            times += super().run(controller, 1)
        return times


def shares(decide: Callable[[Read], Reader]) -> list[float]:
    """The shares near half a second of loops whose limit is below 20,000 on one way and above it on the other one."""
    dice, controller = random.Random(5), IntakeController(Intake(batch_s=0.5))
    plants = [TwoWays(a_row_s=dice.uniform(13e-6, 22e-6), seed=seed, decide=decide) for seed in range(30)]
    return [share_within(plant.run(controller, 60)[10:], 0.5) for plant in plants]


def test_a_loop_whose_limit_is_near_20_000_rows_does_not_swing_between_the_ways() -> None:
    assert min(shares(lambda read: who_reads(read, Intake(batch_s=0.5)))) >= 0.9
    by_rows_alone = shares(lambda read: DRIVER if read.rows <= SMALL_ROWS else TASKS)
    assert sum(by_rows_alone) / len(by_rows_alone) < 0.85, "else there would be nothing to be mended"


def test_a_stream_that_keeps_up_is_read_by_the_driver_and_stays_so() -> None:
    chosen = list[Reader]()

    def decide(read: Read) -> Reader:
        chosen.append(who_reads(read, Intake(batch_s=0.5)))
        return chosen[-1]

    plant = TwoWays(a_row_s=10e-6, backlog=5_000, rate_per_s=20_000, decide=decide)
    plant.run(IntakeController(Intake(batch_s=0.5)), 60)
    assert set(chosen) == {DRIVER}
