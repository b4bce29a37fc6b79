from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.planning.problems import problems
from trimtab.errors import BalanceError
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem
from trimtab_lab.planners.albic import albic
from trimtab_lab.planners.cola import cola
from trimtab_lab.workloads.clusters import drift, synthetic_cluster

pytestmark = pytest.mark.slow  # the optimising planner, and more


def chatty_cluster(one_to_one: float, max_moves: int | None = 10, seed: int = 1) -> Problem:
    return synthetic_cluster(10, 100, varies=10.0, seed=seed, operators=5, max_moves=max_moves, one_to_one=one_to_one)


def after_periods(problem: Problem, periods: int, **options: Any) -> tuple[Problem, list[Plan]]:
    plans = []
    for period in range(periods):
        plan = albic(problem, seed=period, **options)
        assert problem.faults(plan.owner) == []
        plans.append(plan)
        problem = drift(replace(problem, homes=plan.owner), seed=period)
    return problem, plans


@settings(max_examples=25, deadline=None)
@given(problem=problems(), pairs=st.sampled_from([None, 1, 3]))
def test_every_plan_keeps_the_rules(problem: Problem, pairs: int | None) -> None:
    assert problem.faults(albic(problem, pairs_per_period=pairs, effort=200).owner) == []


@pytest.mark.slow
@pytest.mark.parametrize("one_to_one", [0.0, 50.0, 100.0])
def test_it_ends_above_colas_collocation_and_below_its_load_distance_with_a_tenth_of_its_moves(
    one_to_one: float,
) -> None:
    problem, plans = after_periods(chatty_cluster(one_to_one), 30)
    whole = [cola(replace(problem, max_moves=None), seed=seed) for seed in range(5)]
    assert plans[-1].collocation >= max(plan.collocation for plan in whole)
    assert np.mean([plan.load_distance for plan in plans[-8:]]) <= np.mean([plan.load_distance for plan in whole])
    assert max(len(plan.moves) for plan in plans) <= 10
    assert min(len(plan.moves) for plan in whole) >= 75


def test_collocation_rises_from_period_to_period_while_the_load_stays_level() -> None:
    _, plans = after_periods(chatty_cluster(80.0), 12)
    levels = [plan.collocation for plan in plans]
    assert all(later > earlier for earlier, later in pairwise(levels[:7]))
    assert levels[-1] > 60
    assert max(plan.load_distance for plan in plans) <= 10


def test_the_papers_form_joins_one_pair_a_period() -> None:
    problem = chatty_cluster(100.0)
    assert problem.traffic is not None
    pair = float(np.max(problem.traffic.data)) / float(problem.traffic.sum()) * 100
    before = problem.collocation(problem.homes)
    plan = albic(problem, pairs_per_period=1)
    alone = albic(problem, pairs_per_period=0)
    assert plan.collocation - before > 0
    assert plan.collocation == pytest.approx(max(alone.collocation, before) + pair, abs=2.5 * pair)
    _, ours = after_periods(problem, 8)
    _, theirs = after_periods(problem, 8, pairs_per_period=1)
    assert before < theirs[-1].collocation < ours[-1].collocation


def test_an_overload_comes_before_any_traffic() -> None:
    problem = chatty_cluster(100.0, max_moves=6)
    loads = np.where(problem.homes == 0, 2.5 * problem.work, problem.work)
    urgent = replace(problem, loads=loads)
    assert urgent.load_distance(urgent.homes) > 40
    level = milp(urgent)
    assert albic(urgent).load_distance <= 1.1 * level.load_distance


def test_draining_comes_before_any_traffic() -> None:
    problem = replace(chatty_cluster(100.0, max_moves=10), draining=np.arange(10) == 4)
    there = int(np.count_nonzero(problem.homes == 4))
    plan = albic(problem)
    assert problem.faults(plan.owner) == []
    assert there - np.count_nonzero(plan.owner == 4) >= min(there, 8)


def test_partitions_too_large_to_balance_are_made_smaller() -> None:
    # Two blocks of half a node each on a node at 100 %, and no way to level them but to tear one apart.
    table = csr_array((np.ones(8), ([0, 1, 2, 3, 5, 6, 7, 8], [1, 2, 3, 4, 6, 7, 8, 9])), shape=(10, 10))
    problem = Problem([10.0] * 10, [0] * 10, [100.0] * 3, traffic=table, max_moves=7)
    plan = albic(problem, max_partition_load=60.0, step=20.0)
    assert plan.load_distance <= 10
    assert plan.collocation > 40


def test_without_traffic_it_is_levelling_alone() -> None:
    problem = synthetic_cluster(10, 100, varies=30, seed=3, max_moves=10)
    plan = albic(problem)
    assert plan.load_distance <= max(2.5, 1.1 * milp(problem).load_distance)


def test_without_a_budget_one_plan_brings_nearly_all_together() -> None:
    plan = albic(chatty_cluster(100.0, max_moves=None))
    assert plan.collocation > 70
    assert plan.load_distance <= 10


def test_the_same_seed_gives_the_same_plan() -> None:
    first, second = (albic(chatty_cluster(60.0), seed=5, time_limit_s=60) for _ in range(2))
    assert np.array_equal(first.owner, second.owner)


def test_steps_must_lead_somewhere() -> None:
    with pytest.raises(BalanceError, match=r"plan\.options"):
        albic(chatty_cluster(50.0), step=0.0)
