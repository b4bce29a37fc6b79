"""What every planner promises, of those that a job can use; and what `milp` promises of the best placement."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.problems import problems
from tests.support.brute_force import brute_force
from tests.support.planner_contract import *  # noqa: F403  (all of the contract)
from tests.support.planner_contract import plan_of
from trimtab.errors import BalanceError
from trimtab.planning import PLANNERS, dlb, flux, milp
from trimtab.planning.plan import Planner
from trimtab.planning.problem import Problem

ALL: dict[str, Planner] = {
    **{name: registered.planner for name, registered in PLANNERS.items()},
    "dlb light": partial(dlb, policy="light", theta=0.0),
}


@pytest.fixture(scope="module", params=list(ALL.values()), ids=list(ALL))
def planner(request: pytest.FixtureRequest) -> Planner:
    found: Planner = request.param
    return found


@settings(max_examples=50)
@given(problem=problems())
def test_milp_finds_the_best_placement_there_is(problem: Problem) -> None:
    best = brute_force(problem)
    plan = plan_of(milp, problem)
    assert plan.load_distance == pytest.approx(best.load_distance, abs=1e-6)


@pytest.mark.parametrize("improves", [flux, milp])
@settings(max_examples=20)
@given(data=st.data())
def test_planners_that_promise_so_never_raise_the_load_distance(improves: Planner, data: st.DataObject) -> None:
    problem = data.draw(problems(closed=False, new_units=False))
    assert plan_of(improves, problem).load_distance <= problem.load_distance(problem.homes) + 1e-6


@settings(max_examples=20)
@given(problem=problems(sides=False))
def test_lemma_1_no_unit_goes_from_a_node_that_stays_to_one_that_is_drained(problem: Problem) -> None:
    plan = plan_of(milp, problem)
    assert problem.open_nodes[plan.owner[plan.moves]].all()


@settings(max_examples=30)
@given(problem=problems(sides=False, new_units=False))
def test_lemma_2_the_least_distance_leaves_no_load_on_drained_nodes(problem: Problem) -> None:
    # With units that can't be divided it holds where the least distance is 0, as in the paper's proof.
    level = perfectly_level(problem)
    plan = plan_of(milp, level)
    assert plan.load_distance == pytest.approx(0, abs=1e-6)
    assert level.node_loads(plan.owner)[~level.open_nodes].sum() == pytest.approx(0, abs=1e-6)


def perfectly_level(problem: Problem) -> Problem:
    """The same nodes and homes, with loads that fill each open node to 50 % in some placement; no budget."""
    places = np.flatnonzero(problem.open_nodes)
    share = np.arange(problem.units) % len(places)
    members = np.bincount(share, minlength=len(places))
    open_nodes = np.zeros(problem.nodes, dtype=bool)
    open_nodes[places[members > 0]] = True
    loads = problem.strength[places[share]] / 2 / members[share]
    capacities = np.where(open_nodes | ~problem.open_nodes, problem.strength, 0.0)
    if not open_nodes.any():
        return replace(problem, max_moves=None, max_cost=None)
    return Problem(loads, problem.homes, capacities, draining=problem.draining)


def test_where_everything_drains_there_is_no_problem_to_plan() -> None:
    with pytest.raises(BalanceError, match=r"plan\.nodes"):
        Problem([1.0], [0], [1.0, 1.0], draining=[True, True])


def test_the_registry_has_every_planner_under_its_own_name() -> None:
    assert [getattr(each.planner, "__name__", "") for each in PLANNERS.values()] == list(PLANNERS)
