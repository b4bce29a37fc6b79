"""The state machine step by step: what it answers to each happening, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.spreads import spread_over
from trimtab.deciding.placement import Placement
from trimtab.driver.batch_plan import BatchPlan, QuerySetup, Setup
from trimtab.driver.happenings import (
    BatchArrived,
    CollectMerges,
    Commit,
    Committed,
    Delete,
    EnginesReported,
    HandedOver,
    HandOver,
    Happening,
    Instruction,
    MergeParts,
    MergesCollected,
    PartsMerged,
    PlanMerges,
    PlanWritten,
    RunEngines,
    WritePlan,
)
from trimtab.driver.machine import VALIDATES, Driver
from trimtab.driver.next_version import Identity
from trimtab.engine.columns.watermark import TimeRule
from trimtab.errors import JobError, StateError
from trimtab.sources.source import Range
from trimtab.state.manifest import Manifest, SegmentFile
from trimtab.state.segment import PartSize
from trimtab.state.sweep import KEEP
from trimtab.worker.orders import EngineReport, Head, Output

IDENTITY = Identity("job", "t", "incarnation", key_groups=4)
SETUP = Setup("ts", TimeRule(1_000), {"q": QuerySetup("SELECT 1", "print-1")})
TWO = Placement.even(2, 4)


def arrived(spark_batch: int | None, *, setup: Setup = SETUP, placement: Placement = TWO) -> BatchArrived:
    return BatchArrived(spark_batch, spark_batch is None, 5.0, setup, placement)


def report(engine: int, batch: int, **options: Any) -> EngineReport:
    """The report of an engine that wrote some state of the query."""
    segment = SegmentFile(f"{batch}-{engine}", 1, "00")
    settings: dict[str, Any] = {"segment": segment, "parts": {"q": PartSize(1, 1, 1)}, "outputs": {}} | options
    return EngineReport(engine, 3, **settings)


def reported(batch: int, **options: Any) -> EnginesReported:
    return EnginesReported([report(engine, batch, **options) for engine in range(2)], Head(6, {"": 10_000}))


class Checked:
    """A driver, which checks itself after every step: see `conftest.py`."""

    def __init__(self, *arguments: Any) -> None:
        self.driver = Driver(IDENTITY, *arguments)
        self.driver.validate()

    def __call__(self, happened: Happening) -> tuple[Instruction, ...]:
        return self.driver.handle(happened)


def done(step: Checked, spark_batch: int | None, *, setup: Setup = SETUP, **options: Any) -> Delete:
    """Run a whole batch without rows; returns what may be deleted after it."""
    step(arrived(spark_batch, setup=setup))
    step(reported(step.driver.next_number, **options))
    step(PlanWritten())
    step(MergesCollected(()))
    delete, _ = step(Committed())
    assert isinstance(delete, Delete)
    return delete


def planned(spark_batch: int | None) -> WritePlan:
    """What a batch writes down once its engines are done."""
    step = Checked()
    step(arrived(spark_batch))
    (write,) = step(reported(0))
    assert isinstance(write, WritePlan)
    return write


def test_drivers_check_themselves_in_tests() -> None:
    assert VALIDATES


def test_a_batch_goes_from_its_plan_to_its_commit() -> None:
    step = Checked()
    (run,) = step(arrived(0))
    assert isinstance(run, RunEngines)
    assert (run.plan.number, run.plan.spark_batch, run.plan.time.before.watermark_us) == (0, 0, None)
    output = Output(2, b"rows")
    assert step(reported(0, outputs={"q": output})) == (WritePlan(run.plan),)
    (hand_over,) = step(PlanWritten())
    assert hand_over == HandOver("q", run.plan, (output, output), may_repeat=False)
    assert step(HandedOver("q")) == (CollectMerges(None),)
    (commit,) = step(MergesCollected(()))
    assert isinstance(commit, Commit)
    assert (commit.manifest.batch, commit.manifest.matches, commit.manifest.watermark_us) == (0, {"q": 4}, 9_000)
    assert step(Committed()) == (Delete(), PlanMerges(commit.manifest))
    assert step.driver.known is commit.manifest


def test_parts_of_spread_keys_are_merged_before_anything_is_handed_over() -> None:
    step = Checked()
    step(arrived(0, placement=TWO.with_spread([spread_over(7, [0, 1])])))
    (merge,) = step(reported(0))
    assert isinstance(merge, MergeParts)
    assert merge.watermark_us == 9_000
    extra = replace(report(0, 0), engine=-1, segment=None, parts={}, outputs={"q": Output(5, b"x")})
    assert [type(each) for each in step(PartsMerged([extra]))] == [WritePlan]
    (hand_over,) = step(PlanWritten())
    assert isinstance(hand_over, HandOver)
    assert hand_over.outputs == (Output(5, b"x"),)


def test_a_batch_that_was_begun_is_repeated_as_it_was_planned() -> None:
    write = planned(0)
    kept = BatchPlan.from_bytes(write.plan.to_bytes())
    assert kept == write.plan
    changed = Setup("ts", TimeRule(99), {"other": QuerySetup("SELECT 2", "print-2")})
    again = Checked(None, kept)
    (run,) = again(arrived(0, setup=changed, placement=Placement.even(3, 4)))
    assert isinstance(run, RunEngines)
    assert run.plan == write.plan
    found = again(reported(0))
    assert [each.name for each in found if isinstance(each, HandOver)] == ["q", "__late", "__quarantine"]
    assert all(isinstance(each, HandOver) and each.may_repeat for each in found)
    for each in found:
        assert isinstance(each, HandOver)
        again(HandedOver(each.name))
    again(MergesCollected(()))
    again(Committed())
    (run,) = again(arrived(1, setup=changed, placement=Placement.even(3, 4)))
    assert isinstance(run, RunEngines)
    assert run.plan.setup == changed
    assert run.runs == {}, "a query without state begins fresh"


def test_a_committed_batch_that_spark_brings_again_is_not_run_twice() -> None:
    step = Checked()
    done(step, 0)
    assert step(arrived(0)) == ()
    assert step.driver.next_number == 1


def ranges_done(step: Checked, *ranges: Range) -> BatchPlan:
    """Run a whole batch over ranges."""
    (run,) = step(replace(arrived(None), closing=False, ranges=ranges))
    assert isinstance(run, RunEngines)
    for each in step(reported(step.driver.next_number)):
        for taken in step(PlanWritten()) if isinstance(each, WritePlan) else (each,):
            if isinstance(taken, HandOver):
                step(HandedOver(taken.name))
    step(MergesCollected(()))
    step(Committed())
    return run.plan


def test_a_batch_of_ranges_commits_the_positions_after_them() -> None:
    step = Checked()
    plan = ranges_done(step, Range("a", 0, 5), Range("b", 3, 4))
    assert BatchPlan.from_bytes(plan.to_bytes()) == plan
    assert step.driver.positions("") == {"a": 5, "b": 4}
    ranges_done(step, Range("b", 4, 9))
    assert step.driver.positions("") == {"a": 5, "b": 9}
    assert step.driver.known is not None
    assert Manifest.from_bytes(step.driver.known.to_bytes()).positions == {"a": 5, "b": 9}


def test_a_batch_of_ranges_that_was_begun_is_repeated_with_its_own() -> None:
    step = Checked()
    step(replace(arrived(None), closing=False, ranges=(Range("a", 0, 5),)))
    (write,) = step(reported(0))
    assert isinstance(write, WritePlan)
    again = Checked(None, write.plan)
    assert ranges_done(again, Range("a", 0, 8)).ranges == (Range("a", 0, 5),)
    assert again.driver.positions("") == {"a": 5}


def test_the_end_of_the_input_has_a_number_of_its_own_and_no_spark_batch() -> None:
    step = Checked()
    done(step, 0)
    done(step, None)
    assert step.driver.known is not None
    assert (step.driver.known.batch, step.driver.known.spark_batch, step.driver.known.closed) == (1, 0, True)
    assert step.driver.known.segments == {}


@pytest.mark.parametrize("begun", [0, None])
def test_other_rows_than_those_a_batch_was_begun_with_are_refused(begun: int | None) -> None:
    write = planned(begun)
    with pytest.raises(StateError, match=r"was begun with .*, and other rows come") as raised:
        Checked(None, write.plan)(arrived(None if begun == 0 else 0))
    assert raised.value.code == "state.missing-version"


def test_batches_that_do_not_follow_each_other_are_refused() -> None:
    with pytest.raises(StateError, match="Spark goes on with batch 3 of stream t, but the state ends before 0"):
        Checked()(arrived(3))


def test_an_engine_that_did_not_report_is_a_mistake() -> None:
    step = Checked()
    step(arrived(0))
    with pytest.raises(JobError, match="1 of 2 engines reported in batch 0"):
        step(EnginesReported([report(0, 0)], Head()))


def test_files_are_deleted_with_the_last_version_that_names_them() -> None:
    step = Checked()
    done(step, 0)
    without: dict[str, Any] = {"segment": None, "parts": {}}
    gone = [done(step, batch, **without) for batch in range(1, KEEP + 1)]
    assert [each.manifests for each in gone] == [(), (), (0,)]
    assert [each.plans for each in gone] == [(0,), (1,), (2,)]
    assert [each.segments for each in gone] == [(), (), ()], "the state of the first batch is still in use"
    other = Setup("ts", TimeRule(0), {"r": QuerySetup("SELECT 3", "print-3")})
    gone = [done(step, batch, setup=other, **without) for batch in range(KEEP + 1, 2 * KEEP + 1)]
    assert [each.segments for each in gone] == [(), (), ("0-0", "0-1")]
