from __future__ import annotations

import numpy as np

from trimtab.planning.draft import draft_of
from trimtab.planning.problem import Problem
from trimtab_lab.planners.collocation_pairs import join_pairs
from trimtab_lab.planners.collocation_sets import Pairs

HOMES = [0, 0, 0, 1, 1, 2]


def pairs(*found: tuple[int, int, float]) -> Pairs:
    senders, receivers, amounts = zip(*found, strict=True)
    return Pairs(np.array(senders), np.array(receivers), np.array(amounts))


def joined(found: Pairs, blocks: list[int], *, count: int = 1, max_moves: int | None = None) -> list[int]:
    problem = Problem([10.0] * 6, HOMES, [100.0] * 3, max_moves=max_moves)
    draft = draft_of(problem)
    join_pairs(problem, draft, found, np.array(blocks, dtype=np.int32), count=count)
    assert problem.faults(draft.owner) == []
    owner: list[int] = draft.owner.tolist()
    return owner


def test_two_alone_go_where_there_is_less_load() -> None:
    assert joined(pairs((0, 5, 1.0)), [-1] * 6) == [2, 0, 0, 1, 1, 2]


def test_one_alone_goes_to_the_block_of_the_other_even_if_there_is_more_load() -> None:
    assert joined(pairs((0, 5, 1.0)), [4, 4, -1, -1, -1, -1]) == [0, 0, 0, 1, 1, 0]


def test_two_blocks_go_where_there_is_less_load_as_a_whole() -> None:
    assert joined(pairs((0, 3, 1.0)), [0, 0, -1, 1, 1, -1]) == [1, 1, 0, 1, 1, 2]


def test_the_pair_with_most_traffic_comes_first() -> None:
    assert joined(pairs((0, 5, 1.0), (1, 4, 2.0)), [-1] * 6) == [0, 1, 0, 1, 1, 2]


def test_as_many_pairs_as_asked_for_are_joined() -> None:
    assert joined(pairs((0, 5, 1.0), (1, 4, 2.0)), [-1] * 6, count=2) == [2, 1, 0, 1, 1, 2]


def test_a_pair_that_costs_too_much_is_passed_over() -> None:
    found = pairs((0, 3, 9.0), (2, 5, 1.0))
    assert joined(found, [0, 0, -1, 1, 1, -1], max_moves=1) == [0, 0, 2, 1, 1, 2]


def test_no_pair_is_joined_on_a_node_that_takes_no_units() -> None:
    problem = Problem([10.0, 10.0], [0, 1], [100.0, 100.0], draining=[False, True])
    draft = draft_of(problem)
    assert join_pairs(problem, draft, pairs((0, 1, 1.0)), np.array([-1, -1], dtype=np.int32), count=1) == 1
    assert draft.owner.tolist() == [0, 0]
