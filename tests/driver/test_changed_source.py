"""A stream that is read another way than before: what has to be said, and what becomes of its time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.driver.test_machine import IDENTITY, SETUP, TWO, Checked, reported
from trimtab.driver.batch_plan import BatchPlan
from trimtab.driver.changed_source import StartAt, check_positions, check_reader, check_start_at
from trimtab.driver.happenings import BatchArrived, Committed, MergesCollected, PlanWritten, RunEngines
from trimtab.engine.columns.watermark import Silence, TimeRule
from trimtab.errors import InputError, JobError
from trimtab.sources.source import Partition, Range
from trimtab.state.manifest import Manifest
from trimtab.worker.orders import Head

OF_SOURCE = replace(SETUP, rule=TimeRule(1_000, ("a:0", "a:1"), 2))


def arrived(spark_batch: int | None, ranges: tuple[Range, ...] = ()) -> BatchArrived:
    setup = OF_SOURCE if ranges else SETUP
    return BatchArrived(spark_batch, False, 5.0, setup, TWO, Silence(), ranges)


def done(step: Checked, happened: BatchArrived, newest_us: dict[str, int]) -> BatchPlan:
    """Run a whole batch; returns its plan."""
    [run] = step(happened)
    assert isinstance(run, RunEngines)
    step(replace(reported(step.driver.next_number), head=Head(6, newest_us)))
    step(PlanWritten())
    step(MergesCollected(()))
    step(Committed())
    return run.plan


def known_of(step: Checked) -> Manifest:
    known = step.driver.known
    assert known is not None
    return known


def test_a_stream_goes_from_spark_to_trimtab_and_back() -> None:
    step = Checked()
    done(step, arrived(0), {"": 50_000})
    done(step, arrived(1), {"": 60_000})
    assert (known_of(step).spark_batch, known_of(step).positions, step.driver.is_of_spark) == (1, {}, True)

    plan = done(step, arrived(None, (Range("a:0", 7, 9), Range("a:1", 4, 4))), {"a:0": 70_000})
    assert plan.time.before.newest_us == {}, "nothing will come to a partition that no longer is there"
    known = known_of(step)
    assert (known.batch, known.incarnation, known.spark_batch) == (2, IDENTITY.incarnation, None)
    assert known.positions == {"a:0": 9, "a:1": 4}
    assert known.watermark_us == 59_000, "it doesn't fall, and waits for the second partition"
    assert not step.driver.is_of_spark
    done(step, arrived(None, (Range("a:1", 4, 5),)), {"a:1": 65_000})
    assert known_of(step).watermark_us == 64_000

    assert step.driver.next_of_spark == 0
    done(step, arrived(0), {"": 61_000})
    known = known_of(step)
    assert (known.batch, known.spark_batch, known.positions, known.newest_us) == (4, 0, {}, {"": 61_000})
    assert known.watermark_us == 64_000, "it doesn't fall"
    done(step, arrived(1), {"": 90_000})
    assert known_of(step).watermark_us == 89_000


def test_a_partition_that_has_the_same_name_in_both_keeps_its_time() -> None:
    step = Checked()
    done(step, arrived(0), {"a:0": 50_000, "x": 40_000})
    plan = done(step, arrived(None, (Range("a:0", 0, 1),)), {"a:0": 55_000})
    assert plan.time.before.newest_us == {"a:0": 50_000}


def test_spark_keeps_its_log_of_a_batch_that_was_begun_after_the_change() -> None:
    step = Checked()
    done(step, arrived(None, (Range("a:0", 0, 1),)), {"a:0": 55_000})
    [run] = step(arrived(0))
    assert isinstance(run, RunEngines)
    assert Checked(step.driver.known, run.plan).driver.is_of_spark
    assert not Checked(step.driver.known).driver.is_of_spark


def test_a_batch_without_rows_changes_nothing_of_it() -> None:
    step = Checked()
    done(step, arrived(3 - 3), {"": 50_000})
    done(step, arrived(None), {})
    assert (known_of(step).spark_batch, known_of(step).newest_us) == (0, {"": 50_000})


def by_spark() -> Manifest:
    step = Checked()
    done(step, arrived(0), {"": 50_000})
    return known_of(step)


def by_trimtab(*ranges: Range) -> Manifest:
    step = Checked()
    done(step, arrived(None, ranges or (Range("a:0", 0, 3), Range("a:1", 0, 5), Range("b-2:0", 0, 1))), {"a:0": 50_000})
    return known_of(step)


def test_without_a_place_to_go_on_a_change_is_refused() -> None:
    with pytest.raises(JobError, match="Spark has read stream t so far, up to 17; its source") as raised:
        check_reader("t", by_spark(), None, None, is_source=True, read_by_spark="17")
    assert (raised.value.code, "start_at" in raised.value.hint) == ("job.source-changed", True)
    with pytest.raises(JobError, match=r"trimtab has read stream t itself so far, up to {'a:0': 3, 'a:1': 5") as raised:
        check_reader("t", by_trimtab(), None, None, is_source=False)
    assert 'startingOffsets = {"a": {"0": 3, "1": 5}, "b-2": {"0": 1}}' in raised.value.hint
    with pytest.raises(JobError) as raised:
        check_reader("t", by_trimtab(Range("north", 0, 3)), None, None, is_source=False)
    assert "Kafka" not in raised.value.hint


def test_a_place_to_go_on_is_enough_and_who_has_read_before_needs_none() -> None:
    check_reader("t", by_spark(), None, {"a:0": 3}, is_source=True)
    check_reader("t", by_trimtab(), None, "own", is_source=False)
    for is_source in (True, False):
        check_reader("t", None, None, None, is_source=is_source)
    check_reader("t", by_spark(), None, None, is_source=False)
    check_reader("t", by_trimtab(), None, None, is_source=True)


def test_a_batch_that_was_begun_has_to_be_finished_as_it_was() -> None:
    step = Checked()
    done(step, arrived(0), {"": 50_000})
    [run] = step(arrived(1))
    assert isinstance(run, RunEngines)
    with pytest.raises(JobError, match="batch 1 of stream t was begun with rows of a DataFrame, and isn't finished"):
        check_reader("t", by_spark(), run.plan, "own", is_source=True)
    check_reader("t", by_spark(), run.plan, None, is_source=False)


@pytest.mark.parametrize("start_at", [{}, {"a": -1}, {"a": True}, {"a": "1"}, {1: 1}, 5, "latest"])
def test_a_start_has_a_position_for_each_partition(start_at: Any) -> None:
    with pytest.raises(JobError, match="has no position for each partition"):
        check_start_at("t", start_at, is_source=True)


def test_a_dataframe_has_no_positions_of_ours() -> None:
    with pytest.raises(JobError, match="is of no use: the positions of a DataFrame are Spark's"):
        check_start_at("t", {"a": 1}, is_source=False)
    for start_at in (None, "own"):
        check_start_at("t", start_at, is_source=False)


@pytest.mark.parametrize(
    ("start_at", "message"),
    [
        ({"a": 3}, "no position for partition b"),
        ({"a": 3, "b": 2, "c": 1}, "names partition c"),
        ({"a": 1, "b": 2}, "begins partition a at 1, but it has positions 2 to 9"),
        ({"a": 10, "b": 2}, "begins partition a at 10, but it has positions 2 to 9"),
    ],
)
def test_positions_have_to_be_there(start_at: dict[str, int], message: str) -> None:
    partitions, latest = {"a": Partition(2, 2), "b": Partition(0, 0)}, {"a": 9, "b": 2}
    with pytest.raises(InputError, match=message) as raised:
        check_positions(start_at, partitions, latest)
    assert raised.value.code == "source.start-at"
    fine: tuple[StartAt, ...] = ({"a": 9, "b": 0}, "own", None)
    for each in fine:
        check_positions(each, partitions, latest)
