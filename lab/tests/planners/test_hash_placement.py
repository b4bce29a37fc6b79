from dataclasses import replace

import numpy as np
import pytest

from trimtab.errors import BalanceError
from trimtab.planning.problem import Problem
from trimtab_lab.planners.hash_placement import hash_placement, hashes


def cluster(nodes: int, **options: object) -> Problem:
    return Problem(np.ones(3000), np.full(3000, -1), np.ones(nodes), **options)  # type: ignore[arg-type]


def plain_mix(number: int) -> int:
    """Splitmix64 in Python's own numbers."""
    mask = 2**64 - 1
    number = number * 0x9E3779B97F4A7C15 & mask
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & mask
    number = (number ^ number >> 27) * 0x94D049BB133111EB & mask
    return number ^ number >> 31


def test_hashes_are_splitmix64() -> None:
    assert hashes(50, 0).tolist() == [plain_mix(unit + 1) for unit in range(50)]
    assert hashes(50, 7).tolist() == [plain_mix(unit + 1 + 7 * 2**32) for unit in range(50)]


def test_units_spread_as_by_chance_and_by_the_seed() -> None:
    first, second = hash_placement(cluster(10), seed=1).owner, hash_placement(cluster(10), seed=2).owner
    counts = np.bincount(first, minlength=10)
    # Chi squared with 9 degrees of freedom: above 27.9 once in a thousand.
    assert ((counts - 300) ** 2 / 300).sum() < 27.9
    assert 0.05 < float(np.mean(first == second)) < 0.15


def test_loads_play_no_part() -> None:
    light = cluster(10)
    heavy = replace(light, loads=np.arange(3000.0))
    assert hash_placement(light).owner.tolist() == hash_placement(heavy).owner.tolist()


def test_one_node_more_moves_nearly_everything() -> None:
    settled = hash_placement(cluster(10)).owner
    grown = replace(cluster(11), homes=settled)
    assert len(hash_placement(grown).moves) > 0.85 * 3000


def test_a_plan_is_its_own_answer() -> None:
    settled = replace(cluster(10), homes=hash_placement(cluster(10)).owner, max_moves=0)
    assert hash_placement(settled).moves.tolist() == []


def test_within_a_budget_closed_nodes_come_first_and_then_the_order_of_units() -> None:
    homes = hash_placement(cluster(10)).owner
    problem = replace(cluster(10), homes=homes, draining=np.arange(10) == 4, max_moves=400)
    moves = hash_placement(problem).moves
    leaving = np.flatnonzero(homes == 4)
    assert len(moves) == 400
    assert set(leaving) <= set(moves)
    others = np.setdiff1d(moves, leaving)
    whole = np.setdiff1d(hash_placement(replace(problem, max_moves=None)).moves, leaving)
    assert others.tolist() == whole[: len(others)].tolist()


def test_expensive_units_are_passed_over() -> None:
    costs = np.where(np.arange(3000) % 2 == 0, 5.0, 1.0)
    problem = replace(cluster(10), homes=np.zeros(3000, dtype=np.int32), move_costs=costs, max_cost=4.0)
    assert (hash_placement(problem).moves % 2 == 1).all()
    assert len(hash_placement(problem).moves) == 4


def test_a_unit_goes_to_the_next_node_if_its_own_has_no_room() -> None:
    needs = np.ones((6, 2)) * [2.0, 1.0]
    problem = Problem(needs, np.full(6, -1), np.ones((3, 2)) * [2.0, 2.0])
    assert sorted(hash_placement(problem).owner.tolist()) == [0, 0, 1, 1, 2, 2]


def test_a_new_unit_without_room_is_an_error() -> None:
    with pytest.raises(BalanceError, match=r"plan\.room.*new unit"):
        hash_placement(Problem([[9.0, 3.0]], [-1], [[5.0, 2.0], [5.0, 2.0], [0.0, 9.0]]))
