from dataclasses import replace

import pytest
from hypothesis import given

from tests.planning.problems import problems
from trimtab.planning.flux import flux
from trimtab.planning.lptf import lptf
from trimtab.planning.problem import Problem
from trimtab_lab.planners import drain_then_balance
from trimtab_lab.workloads.clusters import shrinking_cluster


def periods_until(problem: Problem, integrated: bool, distance: float) -> int:
    for period in range(1, 40):
        plan = flux(problem) if integrated else drain_then_balance(problem, balance=flux)
        problem = replace(problem, homes=plan.owner)
        if plan.load_distance <= distance:
            return period
    return 40


@pytest.mark.parametrize("overloaded", [1, 5])
def test_draining_first_leaves_overloaded_nodes_waiting(overloaded: int) -> None:
    problem = shrinking_cluster(60, 1200, remove=10, overloaded=overloaded, seed=1)
    assert periods_until(problem, True, 15) * 2 <= periods_until(problem, False, 15)


def test_once_drained_the_rest_of_the_budget_balances() -> None:
    problem = Problem([9.0, 9.0, 1.0, 1.0], [0, 0, 1, 2], [20.0] * 3, draining=[False, False, True], max_moves=2)
    plan = drain_then_balance(problem, balance=flux)
    assert plan.moves.tolist() == [0, 3]
    assert problem.open_nodes[plan.owner].all()


@given(problem=problems())
def test_draining_first_keeps_to_the_budget(problem: Problem) -> None:
    assert problem.faults(drain_then_balance(problem, balance=lptf).owner) == []
