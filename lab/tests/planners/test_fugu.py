from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.planners.first_fit import first_fit
from trimtab_lab.planners.fugu import fewest_nodes, fugu, make_room, release, relieve

PLANNERS = (fugu, make_room, release, relieve)


def in_use(plan: Plan) -> int:
    return len(set(plan.owner.tolist()))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    nodes, units = draw(st.integers(1, 6)), draw(st.integers(0, 14))
    load = st.integers(0, 40).map(lambda count: count / 100)
    loads = [[draw(load), draw(load) / 40] for _ in range(units)]
    return Problem(
        loads=np.array(loads).reshape(units, 2),
        homes=[draw(st.integers(NEW, nodes - 1)) for _ in range(units)],
        capacities=[[draw(st.sampled_from([1.0, 1.0, 1.5])), 1.0] for _ in range(nodes)],
        draining=[False] + [draw(st.booleans()) for _ in range(nodes - 1)],
        state_bytes=[draw(st.integers(0, 9)) for _ in range(units)],
        max_moves=draw(st.none() | st.integers(0, 4)),
        max_cost=draw(st.none() | st.integers(0, 12)),
    )


@settings(deadline=None)
@given(problems(), st.sampled_from(PLANNERS), st.sampled_from([0.6, 0.85, 1.0]))
def test_a_plan_has_no_faults_and_fills_no_node_past_the_threshold_that_was_not(
    problem: Problem, planner: Callable[..., Plan], threshold: float
) -> None:
    plan = planner(problem, threshold=threshold)
    assert problem.faults(plan.owner) == []
    assert planner(problem, threshold=threshold).owner.tolist() == plan.owner.tolist()
    before = problem.node_loads(problem.homes)
    limit = np.maximum(before, threshold * problem.strength) * (1 + 1e-9) + 1e-9
    past = np.flatnonzero(problem.node_loads(plan.owner) > limit)
    # Only units without room anywhere go past it, and those are new.
    assert all(np.any((plan.owner == node) & (problem.homes == NEW)) for node in past)


@settings(deadline=None)
@given(problems())
def test_releasing_never_takes_more_nodes_than_first_fit(problem: Problem) -> None:
    assert in_use(release(problem, threshold=0.85)) <= in_use(first_fit(problem, threshold=0.85))


def test_the_example_of_figure_2() -> None:
    # a5 fits on none of three hosts that together have room; f4 moves from host 3 to host 1, and a5 takes its place.
    loads = {"a1": 0.5, "f1": 0.2, "a2": 0.6, "f2": 0.25, "a3": 0.4, "f4": 0.15, "f3": 0.1, "a5": 0.3}
    problem = Problem(
        loads=list(loads.values()),
        homes=[0, 0, 1, 1, 2, 2, 2, NEW],
        capacities=[1.0] * 4,
        state_bytes=[9, 1, 9, 1, 9, 1, 5, 0],
    )
    assert first_fit(problem, threshold=0.9).owner.tolist()[-1] == 3
    plan = make_room(problem, threshold=0.9)
    assert dict(zip(loads, plan.owner.tolist(), strict=True)) == {
        "a1": 0,
        "f1": 0,
        "a2": 1,
        "f2": 1,
        "a3": 2,
        "f4": 0,
        "f3": 2,
        "a5": 2,
    }


def test_room_is_made_by_moving_the_least_state() -> None:
    loads, homes = [0.6, 0.2, 0.2, 0.3, 0.4], [0, 1, 1, 1, NEW]
    for light in (1, 2):
        state = [9.0, 5.0, 5.0, 9.0, 0.0]
        state[light] = 1.0
        problem = Problem(loads=loads, homes=homes, capacities=[1.0] * 3, state_bytes=state)
        assert make_room(problem, threshold=0.9).moves.tolist() == [light]


def test_the_interval_limits_how_much_is_moved_away() -> None:
    # One unit of node 1 frees too little, two free 0.56 for the 0.35 that the new one needs.
    problem = Problem(loads=[0.6, 0.28, 0.28, 0.29, 0.6, 0.35], homes=[0, 1, 1, 1, 2, NEW], capacities=[1.0] * 4)
    assert make_room(problem, threshold=0.9, interval=0.05).owner.tolist() == [0, 1, 1, 1, 2, 3]
    assert make_room(problem, threshold=0.9, interval=0.25).owner.tolist() == [0, 0, 2, 1, 2, 1]


def test_without_enough_room_in_all_an_empty_node_is_opened() -> None:
    problem = Problem(loads=[0.8, 0.8, 0.3], homes=[0, 1, NEW], capacities=[1.0] * 3)
    assert make_room(problem, threshold=0.9).owner.tolist() == [0, 1, 2]


def test_a_budget_of_nothing_means_first_fit() -> None:
    problem = Problem(loads=[0.4, 0.3, 0.2, 0.4], homes=[0, 1, 1, NEW], capacities=[1.0] * 3, max_moves=0)
    assert make_room(problem, threshold=0.7).owner.tolist() == first_fit(problem, threshold=0.7).owner.tolist()


def test_fewest_nodes_is_equation_2() -> None:
    for loads, threshold, least in (([0.9], 0.9, 1), ([0.9, 0.01], 0.9, 2), ([], 0.9, 0), ([0.85] * 4, 0.85, 4)):
        problem = Problem(loads=loads, homes=[0] * len(loads), capacities=[1.0] * 5)
        assert fewest_nodes(problem, threshold=threshold) == least
    unequal = Problem(loads=[2.0], homes=[0], capacities=[1.0, 1.0, 2.5, 1.0])
    assert fewest_nodes(unequal, threshold=0.8) == 1


def test_the_least_loaded_nodes_are_emptied_until_no_more_can_be_spared() -> None:
    problem = Problem(loads=[0.5, 0.1, 0.2, 0.1, 0.6], homes=[0, 1, 2, 2, 3], capacities=[1.0] * 4)
    plan = release(problem, threshold=0.8)
    assert in_use(plan) == fewest_nodes(problem, threshold=0.8) == 2
    assert plan.moves.tolist() == [1, 2, 3]


def test_a_node_is_emptied_whole_or_not_at_all() -> None:
    loads, homes = [0.7, 0.65, 0.1, 0.2], [0, 1, 2, 2]
    stuck = Problem(loads=loads, homes=homes, capacities=[1.0] * 3)
    assert release(stuck, threshold=0.85).owner.tolist() == [0, 1, 0, 1]
    assert release(stuck, threshold=0.84).moves.tolist() == []
    poor = Problem(loads=loads, homes=homes, capacities=[1.0] * 3, max_moves=1)
    assert release(poor, threshold=0.85).moves.tolist() == []


def test_relief_moves_the_least_state_that_is_enough() -> None:
    loads, homes, state = [0.4, 0.3, 0.3, 0.2, 0.3], [0, 0, 0, 0, 1], [1.0, 9.0, 2.0, 0.5, 0.0]
    problem = Problem(loads=loads, homes=homes, capacities=[1.0] * 3, state_bytes=state)
    plan = relieve(problem, threshold=0.8)  # 0.4 too much, which unit 0 frees, and 0.5 are left on node 1
    assert plan.owner.tolist() == [1, 0, 0, 0, 1]
    assert problem.utilisation(plan.owner).max() == pytest.approx(80.0)


def test_relief_opens_an_empty_node_only_if_those_in_use_have_no_room() -> None:
    roomy = Problem(loads=[0.5, 0.5, 0.3], homes=[0, 0, 1], capacities=[1.0] * 3)
    assert relieve(roomy, threshold=0.8).owner.tolist() == [1, 0, 1]
    full = Problem(loads=[0.5, 0.5, 0.7], homes=[0, 0, 1], capacities=[1.0] * 3)
    assert relieve(full, threshold=0.8).owner.tolist() == [2, 0, 1]
    nowhere = Problem(loads=[0.5, 0.5, 0.7], homes=[0, 0, 1], capacities=[1.0] * 2)
    assert relieve(nowhere, threshold=0.8).moves.tolist() == []


def test_nodes_below_the_threshold_need_no_relief() -> None:
    problem = Problem(loads=[0.5, 0.3, 0.1], homes=[0, 0, 1], capacities=[1.0] * 2)
    assert relieve(problem, threshold=0.8).moves.tolist() == []


def test_units_leave_draining_nodes_first() -> None:
    problem = Problem(
        loads=[0.3, 0.3, 0.3], homes=[0, 1, 2], capacities=[1.0] * 3, draining=[False, False, True], max_moves=1
    )
    assert fugu(problem, threshold=0.8).moves.tolist() == [2]


@pytest.mark.parametrize("seed", range(6))
def test_few_nodes_are_used_compared_with_the_best_packing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loads = rng.uniform(0.1, 0.5, 7).round(2)
    problem = Problem(loads=loads, homes=rng.integers(0, 4, 7), capacities=[1.0] * 4)
    best = min(
        len(set(owner))
        for owner in product(range(4), repeat=7)
        if problem.node_loads(np.array(owner)).max() <= max(0.9, problem.node_loads(problem.homes).max())
    )
    assert in_use(fugu(problem, threshold=0.9)) <= best + 1
