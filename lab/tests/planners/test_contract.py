"""What every planner promises, of the planners that only the lab has."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings

from tests.planning.problems import problems
from tests.support.planner_contract import *  # noqa: F403  (all of the contract)
from tests.support.planner_contract import plan_of
from trimtab.planning import flux
from trimtab.planning.plan import Planner
from trimtab.planning.problem import Problem
from trimtab_lab.planners import OF_THE_LAB, drain_then_balance
from trimtab_lab.planners.first_fit import first_fit
from trimtab_lab.planners.fugu import make_room, release

ALL: dict[str, Planner] = {
    **{name: registered.planner for name, registered in OF_THE_LAB.items() if name != "paper_milp"},  # it takes long
    "make_room": make_room,
    "release": release,
    "drain_then_balance": partial(drain_then_balance, balance=flux),
}


@pytest.fixture(scope="module", params=list(ALL.values()), ids=list(ALL))
def planner(request: pytest.FixtureRequest) -> Planner:
    found: Planner = request.param
    return found


@settings(max_examples=20)
@given(problem=problems(closed=False, new_units=False))
def test_first_fit_never_raises_the_load_distance(problem: Problem) -> None:
    assert plan_of(first_fit, problem).load_distance <= problem.load_distance(problem.homes) + 1e-6


def test_the_registry_has_every_planner_under_its_own_name() -> None:
    assert [getattr(each.planner, "__name__", "") for each in OF_THE_LAB.values()] == list(OF_THE_LAB)
