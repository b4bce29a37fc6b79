from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from tests.planning.problems import problems
from trimtab.errors import BalanceError
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.planners.cola import cola
from trimtab_lab.workloads.clusters import synthetic_cluster


def chatty_cluster(one_to_one: float = 60.0, max_moves: int | None = None, seed: int = 1) -> Problem:
    return synthetic_cluster(10, 200, varies=20.0, seed=seed, operators=5, max_moves=max_moves, one_to_one=one_to_one)


@pytest.mark.parametrize("one_to_one", [0.0, 50.0, 100.0])
def test_collocation_comes_near_what_can_be_had_and_the_load_is_level_enough(one_to_one: float) -> None:
    problem = chatty_cluster(one_to_one)
    plan = cola(problem)
    assert problem.faults(plan.owner) == []
    assert plan.load_distance <= 10
    assert plan.collocation >= 0.9 * one_to_one
    assert plan.collocation >= problem.collocation(problem.homes) + 3


def test_where_units_live_plays_no_part() -> None:
    problem = chatty_cluster()
    elsewhere = replace(problem, homes=problem.homes[::-1].copy())
    assert np.array_equal(cola(problem).owner, cola(elsewhere).owner)


def test_a_tighter_limit_splits_more_and_keeps_less_together() -> None:
    problem = chatty_cluster(100.0)
    loose, tight = cola(problem, max_load_distance=20), cola(problem, max_load_distance=2)
    assert tight.load_distance <= 2 < loose.load_distance <= 20
    assert tight.collocation < loose.collocation


@pytest.mark.parametrize("max_moves", [0, 1, 7, 40])
def test_a_budget_is_kept_and_what_it_buys_is_worth_more_than_nothing(max_moves: int) -> None:
    problem = chatty_cluster(100.0, max_moves)
    plan = cola(problem)
    assert problem.faults(plan.owner) == []
    assert len(plan.moves) == max_moves
    assert plan.load_distance <= max(10.0, problem.load_distance(problem.homes))
    if max_moves >= 7:
        assert plan.collocation > problem.collocation(problem.homes)


def test_a_budget_of_cost_is_kept_too() -> None:
    problem = replace(chatty_cluster(), max_cost=12.5)
    plan = cola(problem)
    assert problem.faults(plan.owner) == []
    assert 0 < plan.migration_cost <= 12.5


def test_draining_nodes_are_emptied_first() -> None:
    problem = replace(chatty_cluster(max_moves=15), draining=np.arange(10) == 3)
    plan = cola(problem)
    assert problem.faults(plan.owner) == []
    assert np.count_nonzero(problem.homes == 3) - np.count_nonzero(plan.owner == 3) >= 10


def test_stronger_nodes_get_more() -> None:
    capacities = np.where(np.arange(10) < 3, 300.0, 100.0)
    plan = cola(replace(chatty_cluster(), capacities=capacities))
    assert plan.load_distance <= 10


def test_new_units_are_placed_even_without_any_budget() -> None:
    homes = np.where(np.arange(200) < 30, NEW, chatty_cluster().homes)
    problem = replace(chatty_cluster(max_moves=0), homes=homes)
    plan = cola(problem)
    assert problem.faults(plan.owner) == []
    assert len(plan.moves) == 0


def test_side_resources_are_kept() -> None:
    rng = np.random.default_rng(2)
    loads = np.column_stack((rng.uniform(1, 5, 60), rng.uniform(0, 3, 60)))
    homes = np.arange(60) % 6
    problem = Problem(loads, homes, np.column_stack((np.full(6, 40.0), np.full(6, 19.0))))
    plan = cola(problem)
    assert problem.faults(plan.owner) == []
    assert plan.load_distance <= 10


def test_a_new_unit_without_room_anywhere_is_an_error() -> None:
    crowded = Problem([[9.0, 5.0]], [NEW], [[10.0, 2.0], [10.0, 2.0], [0.0, 9.0]])
    assert crowded.bottleneck == 0
    with pytest.raises(BalanceError, match=r"plan\.room"):
        cola(crowded)


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_every_plan_keeps_the_rules(problem: Problem) -> None:
    assert problem.faults(cola(problem).owner) == []


def test_the_same_seed_gives_the_same_plan() -> None:
    assert np.array_equal(cola(chatty_cluster(), seed=4).owner, cola(chatty_cluster(), seed=4).owner)


@pytest.mark.parametrize(
    "problem",
    [
        Problem([], [], [100.0]),
        Problem([1.0], [0], [100.0, 100.0, 100.0]),
        Problem([0.0, 0.0], [0, 0], [100.0, 100.0]),
        Problem([50.0, 1.0], [0, 1], [100.0, 0.0]),
        Problem([1.0, 2.0], [1, 1], [100.0, 100.0], traffic=csr_array((2, 2))),
    ],
    ids=["nothing", "more nodes than units", "no load", "a node without capacity", "no traffic"],
)
def test_odd_problems_have_a_plan(problem: Problem) -> None:
    assert problem.faults(cola(problem).owner) == []
