import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from tests.planning.problems import problems
from trimtab.errors import BalanceError
from trimtab.planning.problem import NEW, Problem


def four_units() -> Problem:
    traffic = csr_array(([6.0, 2.0], ([0, 1], [1, 2])), shape=(4, 4))
    return Problem(
        loads=[30.0, 20.0, 10.0, 40.0],
        homes=[0, 0, 1, NEW],
        capacities=[100.0, 50.0, 0.0],
        move_costs=[1.0, 2.0, 4.0, 8.0],
        traffic=traffic,
        max_moves=1,
        max_cost=3.0,
    )


def test_utilisation_is_load_in_percent_of_capacity_and_nothing_without_capacity() -> None:
    problem = four_units()
    assert problem.utilisation([0, 0, 1, 1]).tolist() == [50.0, 100.0, 0.0]
    assert problem.utilisation([0, 0, 1, NEW]).tolist() == [50.0, 20.0, 0.0]


def test_the_mean_spreads_all_load_over_the_open_nodes() -> None:
    problem = four_units()
    assert problem.mean == pytest.approx(100 * 100 / 150)
    drained = replace(problem, draining=np.array([False, True, False]))
    assert drained.mean == 100.0
    assert drained.open_nodes.tolist() == [True, False, False]


def test_load_distance_looks_at_open_nodes_only() -> None:
    problem = Problem([10.0, 30.0], [0, 1], [100.0, 100.0, 100.0], draining=[False, True, False])
    assert problem.mean == 20.0
    assert problem.load_distance([0, 1]) == 20.0
    assert problem.load_distance([0, 2]) == 10.0


def test_the_deviation_is_relative_to_the_mean() -> None:
    problem = Problem([10.0, 30.0], [0, 1], [100.0, 100.0])
    assert problem.rstd([0, 1]) == 50.0
    assert problem.rstd([0, 0]) == 100.0
    assert Problem([0.0], [0], [1.0, 1.0]).rstd([0]) == 0.0


def test_new_units_are_no_moves_and_cost_nothing() -> None:
    problem = four_units()
    assert problem.moved([0, 1, 1, 1]).tolist() == [1]
    assert problem.migration_cost([0, 1, 1, 1]) == 2.0


def test_collocation_is_the_share_of_traffic_inside_nodes() -> None:
    problem = four_units()
    assert problem.collocation([0, 0, 1, 1]) == 75.0
    assert problem.collocation([0, 1, 1, 1]) == 25.0
    assert replace(problem, traffic=None).collocation([0, 0, 1, 1]) == 0.0


def test_the_balanced_resource_is_the_one_of_which_the_greatest_share_is_needed() -> None:
    problem = Problem([[1.0, 9.0], [1.0, 9.0]], [0, 1], [[10.0, 20.0], [10.0, 20.0]])
    assert problem.bottleneck == 1
    assert problem.work.tolist() == [9.0, 9.0]
    assert problem.strength.tolist() == [20.0, 20.0]


@pytest.mark.parametrize(
    ("owner", "fault"),
    [
        ([0, 0, 1, 1], ""),
        ([0, 0, 1], "not every unit"),
        ([0, 0, 1, NEW], "not every unit"),
        ([1, 1, 1, 1], "2 moves with 1 allowed"),
        ([0, 0, 0, 1], "cost of 4.0 with 3.0 allowed"),
        ([0, 0, 1, 2], "1 unit(s) put on a node that takes none"),
    ],
)
def test_faults_say_what_is_wrong(owner: list[int], fault: str) -> None:
    found = four_units().faults(owner)
    assert any(fault in text for text in found) if fault else found == []


def test_side_resources_may_not_be_passed_unless_they_already_were() -> None:
    problem = Problem([[5.0, 1.0], [5.0, 1.0], [1.0, 3.0]], [0, 0, 1], [[5.0, 4.0], [5.0, 2.0]])
    assert problem.bottleneck == 0
    assert problem.faults([0, 0, 1]) == []  # node 1 holds 3 of 2 already
    assert "resource 1" in problem.faults([0, 1, 1])[0]
    assert "resource 1" in problem.faults([0, 0, 0])[0]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"capacities": []}, "plan.nodes"),
        ({"capacities": [0.0, 0.0]}, "plan.nodes"),
        ({"draining": [True, True]}, "plan.nodes"),
        ({"homes": [0, 2]}, "plan.homes"),
        ({"homes": [0, -2]}, "plan.homes"),
        ({"homes": [0]}, "plan.shape"),
        ({"loads": [1.0, -1.0]}, "plan.loads"),
        ({"loads": [1.0, float("nan")]}, "plan.loads"),
        ({"loads": [[1.0, 1.0], [1.0, 1.0]]}, "plan.shape"),
        ({"state_bytes": [1.0]}, "plan.shape"),
        ({"max_moves": -1}, "plan.budget"),
        ({"max_cost": -0.5}, "plan.budget"),
        ({"traffic": csr_array((3, 3))}, "plan.shape"),
        ({"traffic": csr_array(([-1.0], ([0], [1])), shape=(2, 2))}, "plan.loads"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], code: str) -> None:
    columns: dict[str, object] = {"loads": [1.0, 2.0], "homes": [0, 1], "capacities": [5.0, 5.0]}
    with pytest.raises(BalanceError) as caught:
        Problem(**(columns | options))  # type: ignore[arg-type]
    assert caught.value.code == code


@settings(max_examples=30)
@given(problem=problems())
def test_a_copy_with_another_budget_and_a_pickled_one_are_the_same_problem(problem: Problem) -> None:
    for twin in (pickle.loads(pickle.dumps(problem)), replace(problem, max_moves=None)):
        assert twin.mean == problem.mean
        assert twin.bottleneck == problem.bottleneck
        for name in ("loads", "homes", "capacities", "draining", "move_costs", "operators"):
            assert np.array_equal(getattr(twin, name), getattr(problem, name))
