import pytest
from hypothesis import given, settings

from tests.planning.problems import problems
from tests.support.brute_force import brute_force
from trimtab.planning.problem import Problem
from trimtab_lab.planners.paper_milp import paper_milp


@settings(max_examples=40)
@given(problem=problems(most_nodes=3, most_units=6))
def test_the_paper_s_program_has_the_same_optimum(problem: Problem) -> None:
    best = brute_force(problem).load_distance
    plan = paper_milp(problem)
    assert problem.faults(plan.owner) == []
    assert plan.load_distance == pytest.approx(best, rel=1e-3, abs=1e-5)
    assert plan.lower_bound <= best + 1e-6
