"""Hot units get a node each, the others are planned without them, and nothing is worse for it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.problems import problems
from trimtab.planning.flux import flux
from trimtab.planning.hot_units import plan_around_hot_units
from trimtab.planning.lptf import lptf
from trimtab.planning.milp import milp
from trimtab.planning.plan import Planner
from trimtab.planning.problem import Problem

QUICK_MILP = partial(milp, time_limit_s=60.0, effort=300)


@st.composite
def hot_problems(draw: st.DrawFn) -> Problem:
    """One to three units with most of the load, on nodes of several strengths."""
    nodes = draw(st.integers(2, 5))
    hot = draw(st.lists(st.integers(20, 400).map(float), min_size=1, max_size=3))
    others = draw(st.lists(st.integers(0, 50).map(lambda tenths: tenths / 10), min_size=1, max_size=16))
    units = len(hot) + len(others)
    has = st.sampled_from([25.0, 100.0, 100.0])
    return Problem(
        loads=[*hot, *others],
        homes=draw(st.lists(st.integers(0, nodes - 1), min_size=units, max_size=units)),
        capacities=draw(st.lists(has, min_size=nodes, max_size=nodes)),
        move_costs=draw(st.lists(st.integers(0, 5).map(float), min_size=units, max_size=units)),
        max_moves=draw(st.one_of(st.none(), st.integers(0, units))),
        max_cost=draw(st.one_of(st.none(), st.integers(0, 15).map(float))),
    )


@pytest.mark.parametrize("planner", [lptf, flux])
@settings(max_examples=50)
@given(problem=hot_problems())
def test_it_is_within_the_budget_and_never_less_level_than_the_planner_alone(
    planner: Planner, problem: Problem
) -> None:
    plan = plan_around_hot_units(problem, planner)
    assert problem.faults(plan.owner) == []
    assert plan.rstd <= planner(problem).rstd * (1 + 1e-9)
    assert plan.rstd == pytest.approx(problem.rstd(plan.owner))


@pytest.mark.slow
@settings(max_examples=8)
@given(hot_problems())
def test_the_same_holds_for_the_optimising_planner(problem: Problem) -> None:
    plan = plan_around_hot_units(problem, QUICK_MILP)
    assert problem.faults(plan.owner) == []
    assert plan.rstd <= QUICK_MILP(problem).rstd * (1 + 1e-9)


@settings(max_examples=80)
@given(problems())
def test_draining_nodes_other_resources_and_new_units_are_respected(problem: Problem) -> None:
    assert problem.faults(plan_around_hot_units(problem, lptf).owner) == []


def test_what_the_optimising_planner_leaves_alone_is_levelled() -> None:
    """The hot unit's node is the farthest from the mean whatever happens: alone, the planner has nothing to gain."""
    problem = Problem([300.0, *[10.0] * 12], [0] + [1] * 12, [100.0] * 4, max_moves=8)
    plan = plan_around_hot_units(problem, QUICK_MILP)
    assert np.bincount(plan.owner, minlength=4).tolist() == [1, 4, 4, 4]


def test_a_hot_unit_goes_to_the_strongest_node() -> None:
    problem = Problem([300.0, *[10.0] * 8], [0, 0, 0, 0, 1, 1, 1, 2, 2], [25.0, 100.0, 100.0])
    plan = plan_around_hot_units(problem, lptf)
    strong = int(plan.owner[0])
    assert strong in (1, 2)
    assert strong not in plan.owner[1:].tolist()


def test_where_the_budget_has_no_move_for_one_hot_unit_another_one_still_has_its_node() -> None:
    """The second one would have to leave the first one's home; the third one is at home where it is."""
    problem = Problem(
        [100.0, 90.0, 80.0, 1.0, 1.0], [0, 0, 1, 1, 2], [100.0] * 3, move_costs=[9, 9, 1, 1, 1], max_cost=1
    )
    assert plan_around_hot_units(problem, lptf).owner.tolist() == [0, 0, 1, 2, 2]


def test_without_hot_units_it_is_the_planners_own_plan() -> None:
    problem = Problem([10.0, 10.0, 10.0, 10.0], [0, 0, 0, 1], [100.0, 100.0])
    assert plan_around_hot_units(problem, lptf).owner.tolist() == lptf(problem).owner.tolist()


def test_where_another_resource_is_the_scarcest_without_the_hot_unit_nothing_is_set_apart() -> None:
    """Measured by the first resource, which the second node doesn't have, the other units would have no node."""
    problem = Problem([[6.0, 11.0], [6.0, 1.0], [7.0, 10.0]], [0, -1, 2], [[25.0, 25.0], [0.0, 10.0], [25.0, 22.0]])
    assert plan_around_hot_units(problem, lptf).owner.tolist() == lptf(problem).owner.tolist()
