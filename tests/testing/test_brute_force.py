from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from tests.planning.problems import problems
from tests.support.brute_force import brute_force
from trimtab.errors import BalanceError
from trimtab.planning.problem import Problem


@settings(max_examples=60)
@given(problem=problems(most_nodes=3, most_units=5))
def test_no_allowed_placement_is_better(problem: Problem) -> None:
    plan = brute_force(problem)
    assert problem.faults(plan.owner) == []
    allowed = [
        owner
        for owner in map(np.array, product(range(problem.nodes), repeat=problem.units))
        if not problem.faults(owner.astype(np.int32))
    ]
    best = min(problem.load_distance(owner.astype(np.int32)) for owner in allowed)
    assert plan.load_distance == pytest.approx(best, abs=1e-6)
    assert plan.lower_bound == plan.load_distance


def test_it_moves_no_more_than_it_has_to() -> None:
    problem = Problem([5.0, 5.0, 5.0, 5.0], [0, 0, 1, 1], [10.0, 10.0])
    assert brute_force(problem).moves.tolist() == []


def test_a_large_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="1e\\+100 placements"):
        brute_force(Problem(np.ones(100), np.zeros(100), np.ones(10)))


def test_a_new_unit_without_room_is_an_error() -> None:
    problem = Problem([[9.0, 3.0]], [-1], [[10.0, 2.0], [10.0, 2.0], [0.0, 9.0]])
    with pytest.raises(BalanceError, match=r"plan\.room"):
        brute_force(problem)
