"""A stream that is read another way than before: what has to be said, and what becomes of its time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.driver.test_machine import IDENTITY, SETUP, TWO, Checked, reported
from trimtab.driver.batch_plan import BatchPlan, Setup
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
        check_reader("t", by_spark(), None, None, source="Kafka", read_by_spark="17")
    assert (raised.value.code, "start_at" in raised.value.hint) == ("job.source-changed", True)
    with pytest.raises(JobError, match=r"trimtab has read stream t itself so far, up to {'a:0': 3, 'a:1': 5") as raised:
        check_reader("t", by_trimtab(), None, None, source="")
    assert 'startingOffsets = {"a": {"0": 3, "1": 5}, "b-2": {"0": 1}}' in raised.value.hint
    with pytest.raises(JobError) as raised:
        check_reader("t", by_trimtab(Range("north", 0, 3)), None, None, source="")
    assert "Kafka" not in raised.value.hint


def test_a_place_to_go_on_is_enough_and_who_has_read_before_needs_none() -> None:
    check_reader("t", by_spark(), None, {"a:0": 3}, source="Kafka")
    check_reader("t", by_trimtab(), None, "own", source="")
    for source in ("Kafka", ""):
        check_reader("t", None, None, None, source=source)
    check_reader("t", by_spark(), None, None, source="")
    check_reader("t", by_trimtab(), None, None, source="Kafka")


def test_a_batch_that_was_begun_has_to_be_finished_as_it_was() -> None:
    step = Checked()
    done(step, arrived(0), {"": 50_000})
    [run] = step(arrived(1))
    assert isinstance(run, RunEngines)
    with pytest.raises(JobError, match="batch 1 of stream t was begun with rows of a DataFrame, and isn't finished"):
        check_reader("t", by_spark(), run.plan, "own", source="Kafka")
    check_reader("t", by_spark(), run.plan, None, source="")


def of(source: str, *partitions: str) -> Setup:
    rule = TimeRule(1_000).with_partitions(partitions)
    return replace(SETUP, rule=rule, partition_by="p", source=source)


def test_a_partition_that_the_source_no_longer_names_holds_nothing_back() -> None:
    step, both, one = Checked(), of("Kafka", "a:0", "b:0"), of("Kafka", "a:0")
    done(step, replace(arrived(None, (Range("a:0", 0, 2), Range("b:0", 0, 1))), setup=both), {"a:0": 70, "b:0": 50})
    assert known_of(step).watermark_us == 50 - 1_000
    before = known_of(step)
    plan = done(step, replace(arrived(None, (Range("a:0", 2, 3),)), setup=one), {"a:0": 90})
    assert (plan.time.before.newest_us, known_of(step).newest_us) == ({"a:0": 70}, {"a:0": 90})
    assert known_of(step).watermark_us == 90 - 1_000
    assert step.driver.positions("Kafka") == {"a:0": 3, "b:0": 1}, "if it is named again, nothing is read twice"

    again = Checked(before, BatchPlan.from_bytes(plan.to_bytes()))
    [run] = again(replace(arrived(None, (Range("a:0", 2, 9),)), setup=both))
    assert isinstance(run, RunEngines)
    assert run.plan == plan, "a repetition follows its plan"


def test_a_silent_stream_goes_on_without_a_partition_that_is_gone() -> None:
    step, both, one = Checked(), of("Kafka", "a:0", "b:0"), of("Kafka", "a:0")
    done(step, replace(arrived(None, (Range("a:0", 0, 2), Range("b:0", 0, 1))), setup=both), {"a:0": 70, "b:0": 50})
    driver = Checked(replace(known_of(step), next_due_us=60 - 1_000)).driver
    assert not driver.is_due(Silence(), both)
    assert driver.is_due(Silence(), one)


def test_another_source_begins_anew_and_has_its_own_times() -> None:
    step, one, other = Checked(), of("Files /one", "files", "b"), of("Files /other", "files", "b")
    ranges = (Range("files", 0, 2), Range("b", 0, 2))
    done(step, replace(arrived(None, ranges), setup=one), {"files": 90, "b": 50})
    assert Manifest.from_bytes(known_of(step).to_bytes()) == known_of(step)
    assert known_of(step).source == "Files /one"
    assert (step.driver.positions("Files /other"), step.driver.positions("Files /one")) == ({}, {"files": 2, "b": 2})
    plan = done(step, replace(arrived(None, (Range("b", 0, 1),)), setup=other), {"b": 95})
    assert plan.time.before.newest_us == {}
    assert known_of(step).watermark_us == 50 - 1_000, (
        "it waits for the partition of the same name, which is another one"
    )
    assert (known_of(step).positions, known_of(step).source) == ({"b": 1}, "Files /other")
    done(step, replace(arrived(None), setup=other), {})
    assert (known_of(step).positions, known_of(step).source) == ({"b": 1}, "Files /other")
    done(step, arrived(0), {"": 95})
    assert (known_of(step).positions, known_of(step).source) == ({}, "")


def test_another_source_is_refused_until_it_is_said_where_it_goes_on() -> None:
    step = Checked()
    done(step, replace(arrived(None, (Range("files", 0, 2),)), setup=of("Files /one", "files")), {"files": 90})
    known = known_of(step)
    with pytest.raises(JobError, match=r"from Files /one so far, up to \{'files': 2\}; now Files /other") as raised:
        check_reader("t", known, None, None, source="Files /other")
    assert (raised.value.code, "start_at" in raised.value.hint) == ("job.source-changed", True)
    check_reader("t", known, None, "own", source="Files /other")
    check_reader("t", known, None, None, source="Files /one")
    check_reader("t", replace(known, source=""), None, None, source="Files /one")  # of an older build


def test_a_batch_that_was_begun_with_another_source_has_to_be_finished_with_it() -> None:
    [run] = Checked()(replace(arrived(None, (Range("files", 0, 2),)), setup=of("Files /one", "files")))
    assert isinstance(run, RunEngines)
    plan = BatchPlan.from_bytes(run.plan.to_bytes())
    with pytest.raises(JobError, match="batch 0 of stream t was begun with rows of Files /one, and isn't finished"):
        check_reader("t", None, plan, "own", source="Files /other")
    with pytest.raises(JobError, match="begun with rows of Files /one"):
        check_reader("t", None, plan, "own", source="")
    check_reader("t", None, plan, None, source="Files /one")


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
