from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from tests.planning.problems import problems
from tests.support.brute_force import brute_force
from trimtab.errors import BalanceError
from trimtab.machine_code.kernel import Kernel
from trimtab.planning.flux import flux
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.workloads.clusters import shrinking_cluster, synthetic_cluster

pytestmark = pytest.mark.slow  # the optimising planner

PATIENT = 60.0
"""Tests end by effort, never by time."""


def planned(problem: Problem, *, effort: int | None = None, near_enough: float = 0.0) -> Plan:
    plan = milp(problem, time_limit_s=PATIENT, effort=effort, near_enough=near_enough)
    assert problem.faults(plan.owner) == []
    return plan


@settings(max_examples=60)
@given(problem=problems())
def test_a_small_problem_is_solved_and_the_bound_proves_it(problem: Problem) -> None:
    best = brute_force(problem).load_distance
    plan = planned(problem)
    assert plan.load_distance == pytest.approx(best, abs=1e-6)
    assert plan.lower_bound <= best + 1e-6
    assert plan.lower_bound >= 0.98 * best - 1e-3  # the search itself stops at a gap of 1 %


@pytest.mark.parametrize("options", [{"time_limit_s": 0.0}, {"effort": -1}, {"near_enough": -1.0}])
def test_options_that_make_no_sense_are_errors(options: dict[str, float]) -> None:
    with pytest.raises(BalanceError, match=r"plan\.options"):
        milp(Problem([5.0], [0], [100.0]), **options)  # type: ignore[arg-type]


@settings(max_examples=25)
@given(problem=problems(most_nodes=3, most_units=6, budget=False))
def test_more_moves_never_make_it_worse(problem: Problem) -> None:
    distances = [planned(replace(problem, max_moves=moves)).load_distance for moves in range(problem.units + 1)]
    assert all(later <= sooner + 1e-6 for sooner, later in pairwise(distances))


@pytest.mark.parametrize(
    ("nodes", "units", "varies"),
    [(20, 400, 10.0), (20, 400, 50.0), (40, 800, 20.0), (40, 800, 40.0), (60, 1200, 10.0), (60, 1200, 30.0)],
)
def test_half_of_flux_or_within_a_quarter_of_the_bound(nodes: int, units: int, varies: float) -> None:
    problem = synthetic_cluster(nodes, units, varies=varies, seed=500)
    plan = planned(problem)
    assert len(plan.moves) <= 20
    assert plan.load_distance <= flux(problem).load_distance / 2 or plan.gap <= 0.25


def test_a_cluster_of_two_hundred_nodes_is_levelled_better_than_by_flux() -> None:
    problem = synthetic_cluster(200, 10_000, varies=30.0, seed=1, max_moves=300)
    plan = planned(problem, effort=200_000)
    assert plan.load_distance < flux(problem).load_distance / 2


def test_the_same_seed_gives_the_same_plan() -> None:
    problem = synthetic_cluster(20, 400, varies=40.0, seed=1)
    one, other = (milp(problem, seed=7, effort=50_000, time_limit_s=PATIENT) for _ in range(2))
    assert one.owner.tolist() == other.owner.tolist()
    assert one.lower_bound == other.lower_bound


@pytest.mark.parametrize("effort", [0, 1, 100])
def test_little_effort_still_gives_a_plan_with_a_bound(effort: int) -> None:
    problem = synthetic_cluster(20, 400, varies=40.0, seed=1)
    plan = planned(problem, effort=effort)
    assert 0 < plan.lower_bound <= plan.load_distance < problem.load_distance(problem.homes)


def test_hardly_any_time_still_gives_a_plan_with_a_bound() -> None:
    problem = synthetic_cluster(40, 800, varies=30.0, seed=1)
    plan = milp(problem, time_limit_s=1e-6)
    assert problem.faults(plan.owner) == []
    assert 0 < plan.lower_bound <= plan.load_distance < problem.load_distance(problem.homes)


def test_without_a_limit_closed_nodes_are_emptied() -> None:
    problem = shrinking_cluster(8, 80, remove=3, overloaded=1, seed=1, max_moves=None)
    plan = planned(problem, effort=100_000)
    assert problem.node_loads(plan.owner)[problem.draining].sum() == 0
    assert plan.load_distance < 1


def test_what_is_urgent_is_moved_before_closed_nodes_are_emptied() -> None:
    # Taking 5 off node 2 would leave node 0 where it is, at 90.
    problem = Problem([30.0, 30.0, 30.0, 5.0], [0, 0, 0, 2], np.full(3, 100.0), draining=[0, 0, 1], max_moves=1)
    assert sorted(planned(problem).owner.tolist()) == [0, 0, 1, 2]


def test_with_the_same_distance_less_is_left_on_closed_nodes() -> None:
    # Node 0 is at its distance whatever happens, so that the move is free to empty node 2.
    problem = Problem([60.0, 10.0, 1.0], [0, 1, 2], [100.0, 100.0, 100.0], draining=[0, 0, 1], max_moves=1)
    plan = planned(problem)
    assert plan.owner.tolist() == [0, 1, 1]


def test_with_the_same_distance_nodes_are_closer_on_the_other_side() -> None:
    # One node holds a unit of 60 and can't be less than 30 above the mean; the others can be more or less even.
    loads, homes = [60.0, 20.0, 20.0, 10.0, 10.0], [0, 1, 1, 1, 1]
    plan = planned(Problem(loads, homes, np.full(4, 100.0)))
    assert plan.load_distance == pytest.approx(30.0)
    assert np.sort(Problem(loads, homes, np.full(4, 100.0)).node_loads(plan.owner)).tolist() == [20.0, 20.0, 20.0, 60.0]


def test_what_is_near_enough_is_left_alone() -> None:
    problem = synthetic_cluster(20, 400, varies=0.0, seed=1)
    assert problem.load_distance(problem.homes) < 2
    assert planned(problem, near_enough=2.0).moves.tolist() == []
    assert len(planned(problem, effort=20_000).moves) > 0


def test_with_near_enough_a_good_balance_does_not_keep_nodes_from_being_emptied() -> None:
    # The last unit on node 2 makes the others less even than they are without it.
    problem = Problem([30.0, 30.0, 3.0], [0, 1, 2], np.full(3, 100.0), draining=[0, 0, 1])
    three_left = replace(problem, loads=np.array([31.4, 31.4, 3.0]), max_moves=1)
    assert planned(three_left, near_enough=2.0).owner[2] != 2
    assert planned(three_left, near_enough=2.0).load_distance <= 2.0


def test_moves_that_do_nothing_are_not_made() -> None:
    problem = Problem(np.full(12, 5.0), np.arange(12) % 4, np.full(4, 100.0))
    assert planned(problem).moves.tolist() == []


def test_unequal_capacities_get_unequal_loads() -> None:
    problem = Problem(np.ones(60), np.zeros(60), [10.0, 20.0, 30.0])
    assert planned(problem, effort=20_000).load_distance == pytest.approx(0, abs=1e-9)


def kernels() -> dict[str, int]:
    """How many types each compiled function of the search was compiled for."""
    files = ("board", "draft", "proposals", "neighbourhoods", "local_search", "greedy")
    found = {}
    for name in (*files, "moves_needed", "lower_bound", "move_patterns"):
        for function, value in vars(sys.modules[f"trimtab.planning.{name}"]).items():
            if isinstance(value, Kernel):
                found[f"{name}.{function}"] = len(value.machine.signatures)
    return found


def test_nothing_is_compiled_twice_whatever_the_problem() -> None:
    planned(synthetic_cluster(6, 60, varies=30.0, seed=1, max_moves=5), effort=1_000)
    before = kernels()
    rng = np.random.default_rng(1)
    loads, homes = rng.uniform(1, 9, (80, 3)), rng.integers(NEW, 5, 80)
    planned(Problem(loads, homes, np.full((5, 3), 900.0), max_cost=40.0, state_bytes=np.ones(80)), effort=1_000)
    planned(synthetic_cluster(6, 90, varies=30.0, seed=1, max_moves=70), effort=1_000)
    planned(Problem(np.zeros(0), np.zeros(0), [1.0]), effort=1_000)
    assert kernels() == before
