"""What the live experiments on control compute of their measurements: no Spark."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from trimtab_lab.experiment import Results, Verdict
from trimtab_lab.live.hog import hog
from trimtab_lab.live.intake_run import HeadStart, Measured
from trimtab_lab.live.memory_watch import Used, used_now
from trimtab_lab.xu_2005 import delay_under_hog, held_batch_time


def measured(times: Sequence[float], hogged: range = range(0), mb: float = 100.0) -> list[Measured]:
    return [
        Measured(sum(times[: at + 1]), 1_000, each, 1_000, 10**6, 1.0, 0.5, Used(mb, mb), at in hogged)
        for at, each in enumerate(times)
    ]


def test_a_batch_near_the_reference_counts_from_the_tenth_on_until_the_hog_comes() -> None:
    times = [3.0] * 9 + [0.5, 0.55, 0.45, 0.7] + [0.9, 0.8, 0.5, 0.5, 0.5] + [0.3, 0.5, 0.5, 0.5]
    found = held_batch_time._figures(measured(times, range(13, 18)))
    assert found["near_before"] == 75.0
    assert found["near_while"] == 60.0
    assert (found["back_came"], found["back_went"]) == (2, 1)
    assert found["longest"] == 0.9
    assert (found["growth_driver"], found["growth_workers"], found["least_waiting"]) == (1.0, 1.0, 1_000.0)
    assert held_batch_time.back_after(measured([0.9, 0.5, 0.5, 0.9])) is None


def verdict_on(controlled: list[Measured]) -> Verdict:
    """On this controlled run, beside the others as they should be."""
    runs = {
        held_batch_time.CONTROLLED: controlled,
        held_batch_time.FIXED: measured([0.5] * 30 + [0.9] * 30, range(30, 60)),
        held_batch_time.NONE: measured([20.0], mb=400.0),
    }
    figures = {name: held_batch_time._figures(each) for name, each in runs.items()}
    figures[held_batch_time.CONTROLLED]["back_went"] = 1
    return held_batch_time.holds(Results((), {"full": True, "figures_s": figures}))


@pytest.mark.parametrize(("controlled", "holds"), [([0.5] * 60, True), ([0.5] * 30 + [0.9] * 30, False)])
def test_the_verdict_follows_the_figures(controlled: list[float], holds: bool) -> None:
    verdict = verdict_on(measured(controlled, range(30, 60)))
    assert verdict.holds is holds
    assert bool(verdict.reason) is not holds


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"used": Used(100.0, 140.0)}, "the memory of the workers stays bounded"),
        ({"used": Used(140.0, 100.0)}, "the memory of the driver stays bounded"),
        ({"backlog": 999}, "more rows wait than a batch takes, to the end"),
    ],
)
def test_memory_that_grows_and_a_backlog_that_runs_out_are_seen(change: dict[str, Any], failing: str) -> None:
    controlled = measured([0.5] * 60, range(30, 60))
    controlled[-1] = replace(controlled[-1], **change)
    assert [each.sentence for each in verdict_on(controlled).checks if not each.holds] == [failing]


def test_growth_is_that_of_the_hogs_second_half() -> None:
    batches = [
        {"ended_s": float(at), "delay_s": 1.0 + 0.5 * max(0, at - 20), "slow_share": 0.5 if at < 30 else 0.2}
        for at in range(60)
    ]
    found = delay_under_hog._figures(batches, 20.0, 60.0)
    assert found["growth"] == pytest.approx(30.0)
    assert (found["before"], found["share_before"]) == (1.0, 50.0)
    assert found["share_end"] == pytest.approx(20.0)


def test_the_memory_of_descendants_counts_and_a_hog_ends_with_its_block() -> None:
    before = used_now()
    assert before.driver_mb > 1
    program = "x = bytes(range(256)) * 400_000; print(len(x), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert used_now().workers_mb > before.workers_mb + 80
        child.communicate("\n")
    with hog() as pid:
        assert used_now(pid=pid).driver_mb > 0
    assert used_now(pid=pid) == Used(0.0, 0.0)


def test_a_head_start_is_had_once() -> None:
    clock = HeadStart(100.0)
    assert clock() < time.time() - 99
    assert clock() > time.time() - 1
