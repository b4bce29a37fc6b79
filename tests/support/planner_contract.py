"""What every planner promises. A module of tests imports all of it, and has a fixture `planner`."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.problems import problems
from tests.support.brute_force import brute_force
from trimtab.errors import BalanceError
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.workloads.clusters import shrinking_cluster, synthetic_cluster


def plan_of(planner: Planner, problem: Problem) -> Plan:
    """A plan, checked for everything that holds for all of them."""
    plan = planner(problem)
    assert problem.faults(plan.owner) == []
    assert plan.owner.dtype == np.int32
    assert plan.moves.tolist() == problem.moved(plan.owner).tolist()
    assert plan.load_distance == problem.load_distance(plan.owner)
    assert 0 <= plan.lower_bound <= plan.load_distance
    assert plan.seconds >= 0
    return plan


@settings(max_examples=30)
@given(data=st.data())
def test_every_problem_gets_a_faultless_plan_and_the_same_one_again(planner: Planner, data: st.DataObject) -> None:
    problem = data.draw(problems(most_nodes=5, most_units=12))
    assert plan_of(planner, problem).owner.tolist() == plan_of(planner, problem).owner.tolist()


@settings(max_examples=20)
@given(data=st.data())
def test_nothing_beats_trying_every_placement(planner: Planner, data: st.DataObject) -> None:
    problem = data.draw(problems(most_nodes=4, most_units=6))
    best = brute_force(problem)
    plan = plan_of(planner, problem)
    assert plan.load_distance >= best.load_distance - 1e-6
    assert plan.lower_bound <= best.load_distance + 1e-6


def test_no_units(planner: Planner) -> None:
    plan = plan_of(planner, Problem(np.zeros(0), np.zeros(0), [1.0, 2.0]))
    assert len(plan.owner) == len(plan.moves) == 0
    assert plan.load_distance == plan.rstd == plan.migration_cost == 0.0


@pytest.mark.parametrize("home", [NEW, 0, 1])
def test_one_unit(planner: Planner, home: int) -> None:
    plan_of(planner, Problem([3.0], [home], [10.0, 10.0], max_moves=1))


def test_more_nodes_than_units(planner: Planner) -> None:
    problem = Problem([3.0, 2.0], [NEW, 4], np.full(20, 10.0))
    plan_of(planner, problem)


def test_units_of_no_load(planner: Planner) -> None:
    plan_of(planner, Problem(np.zeros(6), [0, 0, 0, NEW, 1, 2], np.ones(4), draining=[False, True, False, False]))


def test_a_node_without_capacity_gets_nothing(planner: Planner) -> None:
    problem = Problem(np.arange(1.0, 9.0), [0, 0, 0, 0, 0, 0, 2, NEW], [50.0, 0.0, 50.0])
    assert 1 not in plan_of(planner, problem).owner


def test_units_on_a_node_without_capacity_may_stay_or_leave(planner: Planner) -> None:
    problem = Problem([1.0, 2.0, 3.0], [1, 1, 0], [50.0, 0.0, 50.0], max_moves=1)
    plan_of(planner, problem)


def test_loads_that_can_be_made_exactly_level(planner: Planner) -> None:
    loads, homes = [2.0, 1.0, 2.0, 0.0, 0.0, 2.0], [2, 2, 2, 0, NEW, NEW]
    plan_of(planner, Problem(loads, homes, [10.0, 4.0, 10.0], draining=[False, False, True], max_moves=3))


@pytest.mark.parametrize("moves", [0, 1, 3, 10])
def test_a_budget_in_moves_is_kept(planner: Planner, moves: int) -> None:
    problem = synthetic_cluster(6, 60, varies=60.0, seed=moves, max_moves=moves, one_to_one=50.0, operators=4)
    assert len(plan_of(planner, problem).moves) <= moves


@pytest.mark.parametrize("cost", [0.0, 0.3, 2.5])
def test_a_budget_in_cost_is_kept(planner: Planner, cost: float) -> None:
    # Tenths: sums that binary fractions miss by a little.
    costs = np.tile([0.1, 0.2, 0.7], 20)
    problem = replace(synthetic_cluster(6, 60, varies=60.0, seed=1), move_costs=costs, max_moves=None, max_cost=cost)
    assert plan_of(planner, problem).migration_cost <= cost * (1 + 1e-9)


def test_no_unit_is_put_on_a_draining_node(planner: Planner) -> None:
    problem = shrinking_cluster(8, 80, remove=3, overloaded=2, seed=1, max_moves=15)
    problem = replace(problem, homes=np.where(np.arange(80) % 10 == 0, NEW, problem.homes))
    plan = plan_of(planner, problem)
    changed = plan.owner != problem.homes
    assert not problem.draining[plan.owner[changed]].any()


def test_side_resources_are_never_filled_past_capacity(planner: Planner) -> None:
    rng = np.random.default_rng(1)
    loads = np.column_stack([rng.uniform(4, 20, 16), rng.uniform(2, 12, 16)])
    homes = np.r_[np.zeros(8), np.ones(4), np.full(4, NEW)]
    capacities = np.array([[100.0, 200.0], [100.0, 60.0], [100.0, 40.0], [100.0, 20.0]])
    problem = Problem(loads, homes, capacities, max_moves=10)
    assert problem.bottleneck == 0
    plan_of(planner, problem)


def test_a_new_unit_that_fits_nowhere_is_an_error(planner: Planner) -> None:
    problem = Problem([[9.0, 3.0], [1.0, 1.0]], [NEW, 0], [[5.0, 2.0], [5.0, 2.0], [0.0, 9.0]])
    with pytest.raises(BalanceError, match=r"plan\.room"):
        planner(problem)


def test_a_plan_and_its_problem_survive_pickling(planner: Planner) -> None:
    problem = synthetic_cluster(3, 12, varies=40.0, seed=1, max_moves=5, one_to_one=50.0, operators=3)
    twin = pickle.loads(pickle.dumps(problem))
    plan = plan_of(planner, problem)
    assert pickle.loads(pickle.dumps(plan)).owner.tolist() == plan.owner.tolist()
    assert planner(twin).owner.tolist() == plan.owner.tolist()


def test_planning_leaves_the_problem_as_it_was(planner: Planner) -> None:
    problem = shrinking_cluster(6, 60, remove=1, overloaded=1, seed=1, max_moves=10)
    before = pickle.loads(pickle.dumps(problem))
    plan_of(planner, problem)
    for column in ("loads", "homes", "capacities", "draining", "move_costs", "operators"):
        assert np.array_equal(getattr(problem, column), getattr(before, column))
