from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from trimtab.planning.problem import Problem
from trimtab_lab.planners.collocation_sets import budget_shares, partitions, talkative_pairs, traffic_both_ways
from trimtab_lab.workloads.clusters import synthetic_cluster


def test_the_pairs_found_are_those_of_the_papers_loop() -> None:
    problem = synthetic_cluster(5, 60, varies=0, seed=4, operators=4, one_to_one=40)
    assert problem.traffic is not None
    sent = problem.traffic.toarray()
    units_of = [np.flatnonzero(problem.operators == operator) for operator in range(4)]
    expected = set()
    for mine in units_of:
        down = [units for units in units_of if sent[np.ix_(mine, units)].any()]
        for sender in mine:
            listeners = sum(len(units) for units in down)
            average = sum(sent[sender, units].sum() for units in down) / listeners if down else 0.0
            expected |= {(int(sender), int(k)) for units in down for k in units if sent[sender, k] > 1.5 * average}
    pairs = talkative_pairs(problem, 1.5)
    assert set(zip(pairs.senders.tolist(), pairs.receivers.tolist(), strict=True)) == expected
    assert len(expected) > 10


def test_a_higher_score_factor_leaves_fewer_pairs() -> None:
    problem = synthetic_cluster(5, 60, varies=0, seed=4, operators=4, one_to_one=40)
    assert len(talkative_pairs(problem, 12.0).senders) < len(talkative_pairs(problem, 1.1).senders)


def test_operators_may_have_any_numbers() -> None:
    traffic = csr_array(([8.0, 1.0], ([0, 0], [1, 2])), shape=(3, 3))
    problem = Problem([1.0] * 3, [0] * 3, [100.0], traffic=traffic, operators=[-7, 90, 90])
    assert talkative_pairs(problem, 1.5).receivers.tolist() == [1]


def test_units_that_talk_to_themselves_are_no_pair() -> None:
    problem = Problem([1.0, 1.0], [0, 0], [100.0], traffic=csr_array(([9.0], ([0], [0])), shape=(2, 2)))
    assert len(talkative_pairs(problem, 0.5).senders) == 0


def test_partitions_are_on_one_node_light_enough_and_within_the_budget() -> None:
    problem = synthetic_cluster(4, 80, varies=0, seed=2, operators=8, one_to_one=100, max_moves=6)
    owner = np.zeros(80, dtype=np.int32)
    owner[40:] = 1
    pairs, edges = talkative_pairs(problem, 1.5), traffic_both_ways(problem)
    blocks = partitions(problem, owner, pairs, edges, max_load=12.0)
    for number in range(int(blocks.max()) + 1):
        members = np.flatnonzero(blocks == number)
        assert len(set(owner[members].tolist())) == 1
        assert 2 <= len(members) <= 6
        assert problem.work[members].sum() <= 12.0
    assert blocks.max() >= 8


def test_sets_that_overlap_are_one() -> None:
    table = csr_array(([1.0] * 3, ([0, 2, 1], [1, 1, 3])), shape=(5, 5))
    problem = Problem([1.0] * 5, [0] * 5, [100.0], traffic=table)
    blocks = partitions(problem, problem.homes, talkative_pairs(problem, 1.0), traffic_both_ways(problem), max_load=25)
    assert blocks.tolist() == [0, 0, 0, 0, -1]


@pytest.mark.parametrize("max_load", [0.0, 1.0])
def test_no_room_for_partitions_leaves_every_unit_alone(max_load: float) -> None:
    problem = synthetic_cluster(4, 40, varies=0, seed=2, operators=4, one_to_one=100)
    blocks = partitions(
        problem, problem.homes, talkative_pairs(problem, 1.5), traffic_both_ways(problem), max_load=max_load
    )
    assert (blocks == -1).all()


def test_shares_of_the_budget_follow_whichever_limit_is_tighter() -> None:
    problem = Problem([1.0, 1.0], [0, 0], [10.0], move_costs=[1.0, 9.0], max_moves=4, max_cost=10.0)
    assert budget_shares(problem).tolist() == [0.25, 0.9]
    assert budget_shares(Problem([1.0], [0], [10.0])).tolist() == [0.0]
    assert budget_shares(Problem([1.0], [0], [10.0], max_moves=0)).tolist() == [1.0]
