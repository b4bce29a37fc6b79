"""The intake's settings: what they refuse, and that they survive the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trimtab.control import Held, Intake, IntakeLimit, IntakeObserved, PIGains
from trimtab.errors import JobError

NAN = float("nan")


@pytest.mark.parametrize(
    "options",
    [
        {"batch_s": 0.5, "latency_s": 1.0},
        {"backlog_rows": 10, "free_memory_share": 0.3},
        {"batch_s": 0.0},
        {"batch_s": NAN},
        {"batch_s": float("inf")},
        {"latency_s": -1.0},
        {"backlog_rows": -1},
        {"free_memory_share": 0.0},
        {"free_memory_share": 1.0},
        {"min_rows": 0},
        {"max_rows": 0},
        {"max_bytes": 0},
        {"first_rows": 0},
        {"min_rows": 20, "max_rows": 10},
        {"gains": (1.0, 0.0)},
        {"gains": (1.0,)},
        {"gains": (NAN, 1.0)},
    ],
)
def test_an_impossible_intake_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(JobError) as raised:
        Intake(**options)
    assert raised.value.code == "job.intake"
    assert raised.value.hint


def test_an_error_names_the_settings_that_contradict_each_other() -> None:
    with pytest.raises(JobError, match="batch_s and latency_s are given"):
        Intake(batch_s=1.0, latency_s=2.0)


def test_without_a_reference_the_batch_time_is_held_at_the_interval() -> None:
    assert Intake().held is Held.BATCH_TIME
    assert Intake().reference(interval_s=3.0) == 3.0
    assert Intake().reference() == 1.0
    assert Intake(batch_s=0.5).reference(interval_s=3.0) == 0.5


@pytest.mark.parametrize(
    "intake",
    [Intake(), Intake(latency_s=2.0, max_rows=5_000), Intake(backlog_rows=7), Intake(batch_s=1.0, gains=(-0.1, 5e5))],
)
def test_settings_survive_the_log(intake: Intake) -> None:
    assert Intake(**json.loads(json.dumps(intake.as_json()))) == intake


def test_a_pair_stands_for_its_gains() -> None:
    assert Intake(gains=(2.0, 3.0)).gains == PIGains(2.0, 3.0)


def test_observations_and_limits_survive_the_log() -> None:
    observed = IntakeObserved(rows=3, batch_s=0.1, bytes=7, backlog_rows=9)
    limit = IntakeLimit(rows=5, held="batch_s", reference=0.5, measure=0.1, error=0.4, reason="why")
    assert IntakeObserved.from_json(json.loads(json.dumps(observed.as_json()))) == observed
    assert IntakeLimit.from_json(json.loads(json.dumps(limit.as_json()))) == limit
