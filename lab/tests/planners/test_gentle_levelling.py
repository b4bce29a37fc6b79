from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.planning.problems import problems
from trimtab.planning.draft import Draft, draft_of, place_new, put
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.planners.collocation_sets import budget_shares, traffic_both_ways
from trimtab_lab.planners.gentle_levelling import level_gently
from trimtab_lab.workloads.clusters import synthetic_cluster


def levelled(problem: Problem, *, level: float, blocks: Int32Array | None = None) -> Draft:
    draft = draft_of(problem)
    place_new(problem, draft)
    blocks = np.full(problem.units, -1, dtype=np.int32) if blocks is None else blocks
    level_gently(problem, draft, traffic_both_ways(problem), blocks, level=level)
    return draft


def plainly_levelled(problem: Problem, level: float) -> Int32Array:
    """The same for single units on equal nodes, in plain Python."""
    draft = draft_of(problem)
    table = traffic_both_ways(problem).toarray()
    table /= table.sum()
    shares = np.maximum(budget_shares(problem), 1e-6 / problem.units)
    worth = 1 / problem.units / shares.mean()
    stuck: set[int] = set()
    while draft.budget[0] >= 1:
        off = draft.loads - problem.mean
        nodes = [node for node in range(problem.nodes) if node not in stuck and abs(off[node]) > level]
        if not nodes:
            break
        node = max(nodes, key=lambda node: abs(off[node]))
        options = []
        for unit in range(problem.units):
            home = int(draft.owner[unit])
            targets = [n for n in range(problem.nodes) if n != node] if off[node] > 0 else [node]
            if (home == node) != (off[node] > 0):
                continue
            for target in targets:
                after = max(abs(off[home] - problem.work[unit]), abs(off[target] + problem.work[unit]))
                leaves = int(target != problem.homes[unit]) - int(home != problem.homes[unit])
                if after <= max(level, 0.9 * abs(off[node])) and leaves <= draft.budget[0]:
                    gain = table[unit, draft.owner == target].sum() - table[unit, draft.owner == home].sum()
                    options.append((gain - worth * shares[unit] * max(leaves, 0.001), unit, target))
        if not options:
            stuck.add(node)
            continue
        _, unit, target = max(options)
        put(draft, unit, target)
    return draft.owner


@pytest.mark.parametrize("seed", range(4))
def test_the_compiled_search_agrees_with_the_plain_one(seed: int) -> None:
    problem = synthetic_cluster(8, 80, varies=24, seed=seed, operators=4, max_moves=12, one_to_one=50)
    assert problem.traffic is not None
    noisy = problem.traffic.copy()
    noisy.data = noisy.data * np.random.default_rng(seed).uniform(0.5, 1.5, noisy.nnz)  # no two gains are equal then
    problem = replace(problem, traffic=noisy)
    draft = levelled(problem, level=4.0)
    assert len(problem.moved(draft.owner)) > 1
    assert np.array_equal(draft.owner, plainly_levelled(problem, 4.0))


@settings(max_examples=150, deadline=None)
@given(problem=problems(), level=st.sampled_from([0.0, 5.0, 30.0]))
def test_the_load_distance_never_grows_and_the_rules_hold(problem: Problem, level: float) -> None:
    start = draft_of(problem)
    place_new(problem, start)
    draft = levelled(problem, level=level)
    assert problem.faults(draft.owner) == []
    most = max(level, problem.load_distance(start.owner))
    assert problem.load_distance(draft.owner) <= most * (1 + 1e-9) + 1e-9


def test_the_unit_that_nobody_talks_to_is_moved() -> None:
    table = csr_array(([1.0, 1.0], ([0, 1], [1, 2])), shape=(5, 5))
    problem = Problem([10.0] * 5, [0, 0, 0, 0, 1], [100.0, 100.0], traffic=table)
    assert levelled(problem, level=6.0).owner.tolist() == [0, 0, 0, 1, 1]


def test_it_goes_where_it_gains_something_if_it_must_go() -> None:
    table = csr_array(([1.0], ([1], [4])), shape=(5, 5))
    problem = Problem([10.0] * 5, [0, 0, 0, 1, 2], [100.0] * 3, traffic=table)
    assert levelled(problem, level=7.0).owner.tolist() == [0, 2, 0, 1, 2]


def test_a_node_that_is_too_empty_is_filled() -> None:
    table = csr_array(([1.0] * 6, ([0, 0, 3, 3, 6, 6], [1, 2, 4, 5, 7, 8])), shape=(10, 10))
    problem = Problem([4.0] * 10, [0, 0, 0, 1, 1, 1, 2, 2, 2, 2], [100.0] * 4, traffic=table)
    draft = levelled(problem, level=7.0)
    assert draft.owner.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_a_block_may_move_as_one() -> None:
    table = csr_array(([9.0, 9.0], ([0, 2], [1, 3])), shape=(6, 6))
    problem = Problem([5.0] * 6, [0, 0, 0, 0, 1, 1], [100.0] * 3, traffic=table)
    blocks = np.array([0, 0, 1, 1, -1, -1], dtype=np.int32)
    draft = levelled(problem, level=1.0, blocks=blocks)
    assert problem.collocation(draft.owner) == 100.0
    assert problem.load_distance(draft.owner) == 0.0


def test_a_cluster_that_is_level_enough_is_left_alone() -> None:
    problem = synthetic_cluster(8, 80, varies=4, seed=1, operators=4, one_to_one=50)
    assert np.array_equal(levelled(problem, level=5.0).owner, problem.homes)
