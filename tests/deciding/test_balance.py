"""Policies and rules: what they refuse, and that they survive the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trimtab.deciding.policy import Balance, Scale, balance_of
from trimtab.errors import JobError
from trimtab.planning.registry import POLICIES

NAN = float("nan")


@pytest.mark.parametrize(
    "options",
    [
        {"planner": "best"},
        {"planner": ""},
        {"measure": "mood"},
        {"max_rstd": -1.0},
        {"max_rstd": NAN},
        {"max_load_distance": -0.1},
        {"patience": 0},
        {"period_batches": 0},
        {"period_s": -1.0},
        {"max_moves": -1},
        {"max_state_bytes": -1},
        {"min_gain": -0.1},
        {"half_life_batches": 0.0},
        {"half_life_batches": NAN},
        {"time_limit_s": 0.0},
    ],
)
def test_an_impossible_policy_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(JobError) as raised:
        Balance(**options)
    assert raised.value.code == "job.balance"
    assert raised.value.hint


@pytest.mark.parametrize(
    "options",
    [
        {"min_engines": 0},
        {"min_engines": 5},
        {"max_engines": 0},
        {"low": 60.0},
        {"high": 60.0},
        {"low": -1.0},
        {"target": NAN},
        {"cool_down_batches": -1},
        {"cool_down_s": -1.0},
        {"interval_s": 0.0},
    ],
)
def test_an_impossible_rule_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(JobError) as raised:
        Scale(**{"max_engines": 4} | options)
    assert raised.value.code == "job.scale"


@pytest.mark.parametrize("name", POLICIES)
def test_every_name_is_a_policy(name: str) -> None:
    policy = balance_of(name)
    assert policy is not None
    assert policy.planner == name
    assert balance_of(policy) is policy


def test_none_is_no_policy() -> None:
    assert balance_of(None) is None


def test_policies_and_rules_come_back_from_json_as_they_were() -> None:
    policy = Balance(planner="lptf", measure="state", max_rstd=None, max_moves=3, period_s=0.1)
    found = Balance(**json.loads(json.dumps(policy.as_json())))
    assert found.as_json() == policy.as_json()
    rule = Scale(max_engines=7, interval_s=0.25)
    assert Scale(**json.loads(json.dumps(rule.as_json()))) == rule
