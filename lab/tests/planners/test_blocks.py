from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.problems import problems
from tests.support.brute_force import brute_force
from trimtab.planning.milp import milp
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.planners.blocks import blocks_as_units


def blocks_of(problem: Problem, labels: list[int]) -> Int32Array:
    """Blocks of units that have the same home and the same label; a label of 0 is alone."""
    return np.array(
        [2 * home + label if label else -1 for home, label in zip(problem.homes, labels, strict=True)], dtype=np.int32
    )


@settings(max_examples=60)
@given(problem=problems(new_units=False), data=st.data())
def test_a_plan_of_blocks_keeps_them_together_and_the_budget(problem: Problem, data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.integers(0, 2), min_size=problem.units, max_size=problem.units))
    blocks = blocks_of(problem, labels)
    smaller, number = blocks_as_units(problem, blocks)
    owner = brute_force(smaller).owner[number]
    assert problem.faults(owner) == []
    assert smaller.mean == pytest.approx(problem.mean)
    for label in set(blocks.tolist()) - {-1}:
        assert len(set(owner[blocks == label].tolist())) == 1


def test_a_pair_costs_two_moves() -> None:
    problem = Problem([5.0, 5.0, 4.0, 4.0], [0, 0, 0, 0], [100.0, 100.0], max_moves=2)
    pair = np.array([0, 0, -1, -1], dtype=np.int32)
    assert milp(blocks_as_units(problem, pair)[0]).load_distance == pytest.approx(1.0)
    smaller, _ = blocks_as_units(replace(problem, max_moves=1), np.array([0, 0, 1, 1], dtype=np.int32))
    assert milp(smaller).moves.tolist() == []


def test_without_blocks_it_is_the_same_problem() -> None:
    problem = Problem([5.0, 5.0], [0, 0], [100.0, 100.0], max_moves=1, max_cost=3.0)
    assert blocks_as_units(problem, np.full(2, -1, dtype=np.int32))[0] is problem
