from dataclasses import replace

import numpy as np
from hypothesis import given

from tests.planning.problems import problems
from trimtab.planning.flux import STRICTLY, flux
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.workloads.clusters import shrinking_cluster, synthetic_cluster


def plain_flux(problem: Problem) -> Int32Array:
    """The same rounds over plain lists, for problems without new units and side resources."""
    owner = problem.homes.copy()
    while True:
        levels = problem.utilisation(owner) / 100
        loads = problem.node_loads(owner)
        closed = [n for n in range(problem.nodes) if not problem.open_nodes[n] and (owner == n).any()]
        closed.sort(key=lambda n: (-loads[n], n))
        open_nodes = sorted(np.flatnonzero(problem.open_nodes).tolist(), key=lambda n: (-levels[n], n))
        order, moved = closed + open_nodes, False
        for position in range(len(order) // 2):
            source, target = order[position], order[-1 - position]
            if not problem.open_nodes[target]:
                break
            for unit in sorted(np.flatnonzero(owner == source), key=lambda u: -problem.work[u]):
                trial = owner.copy()
                trial[unit] = target
                if source in open_nodes:
                    now, then = problem.utilisation(owner) / 100, problem.utilisation(trial) / 100
                    apart = now[source] - now[target]
                    step = max(now[source] - then[source], then[target] - now[target])
                    if step <= 0 or step >= STRICTLY * apart:
                        continue
                if problem.faults(trial):
                    continue
                owner, moved = trial, True
                break
            if problem.max_moves is not None and len(problem.moved(owner)) >= problem.max_moves:
                return owner
        if not moved:
            return emptied(problem, owner)


def emptied(problem: Problem, owner: Int32Array) -> Int32Array:
    """What no pair has taken off closed nodes goes to the least utilised node."""
    for unit in sorted(np.flatnonzero(~problem.open_nodes[owner]), key=lambda u: -problem.work[u]):
        after = (problem.node_loads(owner) + problem.work[unit]) / np.where(problem.open_nodes, problem.strength, 1e-99)
        trial = owner.copy()
        trial[unit] = after.argmin()
        owner = owner if problem.faults(trial) else trial
    return owner


@given(problem=problems(sides=False, new_units=False, distinct_loads=True))
def test_compiled_rounds_are_the_plain_ones(problem: Problem) -> None:
    assert flux(problem).owner.tolist() == plain_flux(problem).tolist()


@given(problem=problems(sides=False, new_units=False, closed=False))
def test_load_distance_never_grows(problem: Problem) -> None:
    assert flux(problem).load_distance <= problem.load_distance(problem.homes) + 1e-9


def test_the_fullest_gives_to_the_emptiest_and_the_second_to_the_second_last() -> None:
    problem = Problem([9.0, 8.0, 7.0, 6.0, 2.0, 1.0], [0, 0, 1, 1, 2, 3], [100.0] * 4, max_moves=2)
    assert flux(problem).owner.tolist() == [3, 0, 2, 1, 2, 3]


def test_a_unit_that_only_turns_the_tables_stays() -> None:
    problem = Problem([10.0], [0], [100.0, 100.0])
    assert flux(problem).moves.tolist() == []


def test_rounds_go_on_until_the_moves_are_spent() -> None:
    problem = synthetic_cluster(20, 400, varies=50.0, seed=5, max_moves=9)
    assert len(flux(problem).moves) == 9


def test_a_stronger_node_takes_more() -> None:
    problem = Problem(np.ones(40), np.zeros(40), [10.0, 30.0])
    assert problem.node_loads(flux(problem).owner).tolist() == [10.0, 30.0]


def test_draining_nodes_are_emptied_and_the_rest_is_level() -> None:
    problem = shrinking_cluster(20, 400, remove=4, overloaded=2, seed=1, max_moves=20)
    for _ in range(8):
        plan = flux(problem)
        assert len(plan.moves) <= 20
        problem = replace(problem, homes=plan.owner)
    assert problem.open_nodes[problem.homes].all()
    assert problem.load_distance(problem.homes) < 3


def test_units_of_no_load_leave_draining_nodes_too() -> None:
    problem = Problem([0.0, 5.0], [1, 1], [10.0, 10.0], draining=[False, True])
    assert flux(problem).owner.tolist() == [0, 0]
