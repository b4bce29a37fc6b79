"""Units too hot to share a node are set apart, on a strong one."""

from __future__ import annotations

import numpy as np

from trimtab.planning.hot_units import plan_around_hot_units
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem


def planned(problem: Problem) -> Plan:
    return plan_around_hot_units(problem, lambda each: milp(each, effort=20_000))


def test_what_is_hot_on_a_weak_node_only_goes_to_a_strong_one_that_bears_it_with_others() -> None:
    loads = np.array([30.0, *[2.0] * 50])
    homes = np.array([0, *([1, 2, 3] * 17)[:50]], np.int32)
    problem = Problem(loads, homes, [33.0, 100.0, 100.0, 100.0], max_moves=30)
    plan = planned(problem)
    assert plan.owner[0] != 0
    assert plan.rstd < 5


def test_what_is_hot_on_every_node_leaves_a_weak_one() -> None:
    problem = Problem([80.0, 5.0, 5.0, 5.0, 5.0], [0, 1, 1, 2, 2], [25.0, 100.0, 100.0], max_moves=5)
    plan = planned(problem)
    assert plan.owner[0] in (1, 2)
    assert plan.owner[1:].tolist().count(plan.owner[0]) == 0, "it is alone there"


def test_what_is_hot_stays_where_nodes_are_alike() -> None:
    problem = Problem([80.0, 5.0, 5.0, 5.0, 5.0], [0, 0, 1, 2, 2], [95.0, 100.0, 100.0], max_moves=5)
    assert planned(problem).owner[0] == 0


def test_what_is_hot_stays_on_a_weak_node_if_nothing_may_move() -> None:
    problem = Problem([80.0, 5.0, 5.0], [0, 1, 2], [25.0, 100.0, 100.0], max_moves=0)
    assert planned(problem).owner.tolist() == [0, 1, 2]
