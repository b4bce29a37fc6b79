from dataclasses import replace

import numpy as np
from hypothesis import given

from tests.planning.problems import problems
from trimtab.planning.lptf import lptf
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.workloads.clusters import shrinking_cluster, synthetic_cluster


def plain_lptf(problem: Problem) -> Int32Array:
    owner = np.full(problem.units, -1, dtype=np.int32)
    loads = np.zeros(problem.nodes)
    for unit in sorted(range(problem.units), key=lambda u: -problem.work[u]):
        after = {n: (loads[n] + problem.work[unit]) / problem.strength[n] for n in np.flatnonzero(problem.open_nodes)}
        lowest = min(after.values())
        ties = [int(node) for node, level in after.items() if level == lowest]
        owner[unit] = problem.homes[unit] if problem.homes[unit] in ties else ties[0]
        loads[owner[unit]] += problem.work[unit]
    return owner


@given(problem=problems(sides=False, budget=False, distinct_loads=True))
def test_without_a_budget_it_is_longest_processing_time_first(problem: Problem) -> None:
    assert lptf(problem).owner.tolist() == plain_lptf(problem).tolist()


@given(problem=problems(sides=False, closed=False, budget=False, new_units=False))
def test_grahams_bound_holds_on_equal_nodes(problem: Problem) -> None:
    equal = replace(problem, capacities=np.full(problem.nodes, 10.0))
    least = max(equal.work.sum() / equal.nodes, equal.work.max(initial=0.0))
    assert equal.node_loads(lptf(equal).owner).max() <= (2 - 1 / equal.nodes) * least + 1e-9


def test_most_units_move() -> None:
    problem = synthetic_cluster(20, 400, varies=20.0, seed=1, max_moves=None)
    plan = lptf(problem)
    assert len(plan.moves) > 0.7 * 400
    assert plan.load_distance < 0.2


def test_equal_units_stay_where_they_are() -> None:
    problem = Problem(np.zeros(6), [2, 1, 0, 2, 1, 0], np.ones(3))
    assert lptf(problem).moves.tolist() == []


def test_a_budget_is_spent_on_what_helps_most() -> None:
    problem = synthetic_cluster(20, 400, varies=50.0, seed=1, max_moves=20)
    plan = lptf(problem)
    assert len(plan.moves) == 20
    assert plan.load_distance < 0.4 * problem.load_distance(problem.homes)


def test_closed_nodes_are_emptied_first() -> None:
    problem = shrinking_cluster(20, 400, remove=2, overloaded=2, seed=1, max_moves=30)
    plan = lptf(problem)
    assert problem.draining[problem.homes[plan.moves]].all()
    assert len(plan.moves) == 30


def test_cheap_moves_come_first_when_cost_is_the_limit() -> None:
    problem = Problem([5.0, 5.0, 5.0, 5.0], [0] * 4, [10.0, 10.0], move_costs=[9.0, 1.0, 9.0, 1.0], max_cost=9.0)
    assert lptf(problem).migration_cost <= 2
