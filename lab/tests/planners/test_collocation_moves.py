from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.planning.problems import problems
from trimtab.planning.draft import Draft, draft_of, place_new, put
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.planners.collocation_moves import EXCHANGES, TARGETS, gather_traffic
from trimtab_lab.planners.collocation_sets import budget_shares, partitions, talkative_pairs, traffic_both_ways
from trimtab_lab.workloads.clusters import synthetic_cluster


def alone(problem: Problem) -> Int32Array:
    return np.full(problem.units, -1, dtype=np.int32)


def gathered(problem: Problem, blocks: Int32Array, *, band: float, keep: float = 0.0) -> Draft:
    draft = draft_of(problem)
    place_new(problem, draft)
    gather_traffic(problem, draft, traffic_both_ways(problem), blocks, band=band, keep=keep)
    return draft


@dataclass
class PlainClimb:
    """The same climb in plain Python: every gain is worked out anew in every step, and no exchange is passed over."""

    problem: Problem
    draft: Draft
    blocks: Int32Array
    band: float

    def run(self) -> None:
        self.table = traffic_both_ways(self.problem).toarray()
        self.table /= self.table.sum()
        numbers = sorted(set(self.blocks[self.blocks >= 0].tolist()))
        self.things = [[unit] for unit in range(self.problem.units)]
        self.things += [np.flatnonzero(self.blocks == number).tolist() for number in numbers]
        self.shares = np.maximum(budget_shares(self.problem), 1e-6 / self.problem.units)
        while self.draft.budget[0] >= 1 and (step := self.best_step()) is not None:
            (thing, target), other = step
            home = int(self.draft.owner[thing[0]])
            for unit in thing:
                put(self.draft, unit, target)
            for unit in other:
                put(self.draft, unit, home)

    def best_step(self) -> tuple[tuple[list[int], int], list[int]] | None:
        best = 0.0
        chosen: tuple[tuple[list[int], int], list[int]] | None = None
        tried = 0
        for ratio, thing, target, gain in sorted(self.single_gains(), key=lambda entry: -entry[0]):
            if ratio <= best or tried == EXCHANGES:
                break
            home = int(self.draft.owner[thing[0]])
            if self.allowed(thing, [], home, target):
                best, chosen = ratio, ((thing, target), [])
                continue
            tried += 1
            for other in self.things:
                if self.place(other) != target or not self.allowed(thing, other, home, target):
                    continue
                mutual = float(self.table[thing][:, other].sum())
                found = gain + self.towards(other, home) - self.towards(other, target) - 2 * mutual
                both = self.price(thing, target) + self.price(other, home)
                if found > 1e-9 and found / both > best:
                    best, chosen = found / both, ((thing, target), other)
        return chosen

    def single_gains(self) -> list[tuple[float, list[int], int, float]]:
        entries = []
        for thing in self.things:
            home = self.place(thing)
            if home < 0:
                continue
            gains = [
                (self.towards(thing, node) - self.towards(thing, home), node) for node in range(self.problem.nodes)
            ]
            gains = sorted((entry for entry in gains if entry[0] > 1e-9), reverse=True)[:TARGETS]
            entries += [(gain / self.price(thing, node), thing, node, gain) for gain, node in gains]
        return entries

    def place(self, thing: list[int]) -> int:
        nodes = set(self.draft.owner[thing].tolist())
        return nodes.pop() if len(nodes) == 1 else -1

    def towards(self, thing: list[int], node: int) -> float:
        there = np.setdiff1d(np.flatnonzero(self.draft.owner == node), thing)
        return float(self.table[thing][:, there].sum())

    def leaves(self, unit: int, node: int) -> int:
        home = self.draft.homes[unit]
        return int(node != home) - int(self.draft.owner[unit] != home)

    def price(self, thing: list[int], node: int) -> float:
        return float(sum(self.shares[unit] * max(self.leaves(unit, node), 0.001) for unit in thing))

    def allowed(self, thing: list[int], other: list[int], home: int, target: int) -> bool:
        spent = sum(self.leaves(unit, target) for unit in thing) + sum(self.leaves(unit, home) for unit in other)
        if spent > 0 and spent > self.draft.budget[0]:
            return False
        change = self.draft.work[thing].sum() - self.draft.work[other].sum()
        for node, delta in ((home, -change), (target, change)):
            before = abs(self.draft.loads[node] - self.problem.mean)
            after = abs(self.draft.loads[node] + delta - self.problem.mean)
            if after > self.band and after > before:
                return False
        return True


@pytest.mark.parametrize("seed", range(6))
def test_the_compiled_climb_agrees_with_the_plain_one(seed: int) -> None:
    problem = synthetic_cluster(6, 36, varies=10, seed=seed, operators=4, max_moves=9, one_to_one=50)
    rng = np.random.default_rng(seed)
    assert problem.traffic is not None
    noisy = problem.traffic.copy()
    noisy.data = noisy.data * rng.uniform(0.5, 1.5, noisy.nnz)  # no two gains are equal then
    problem = replace(problem, traffic=noisy)
    blocks = partitions(
        problem, problem.homes, talkative_pairs(problem, 1.5), traffic_both_ways(problem), max_load=40, seed=seed
    )
    assert (blocks >= 0).any()
    plain = PlainClimb(problem, draft_of(problem), blocks, band=9.0)
    plain.run()
    compiled = gathered(problem, blocks, band=9.0)
    assert len(problem.moved(compiled.owner)) > 4
    assert np.array_equal(compiled.owner, plain.draft.owner)


@settings(max_examples=150, deadline=None)
@given(problem=problems(), band=st.sampled_from([0.0, 5.0, 1e9]), keep=st.sampled_from([0.0, 0.5, 1.0]))
def test_collocation_never_falls_and_the_rules_hold(problem: Problem, band: float, keep: float) -> None:
    start = draft_of(problem)
    place_new(problem, start)
    draft = gathered(problem, alone(problem), band=band, keep=keep)
    assert problem.faults(draft.owner) == []
    assert problem.collocation(draft.owner) >= problem.collocation(start.owner) - 1e-9
    level = problem.open_nodes
    before = np.abs(problem.utilisation(start.owner) - problem.mean)[level]
    after = np.abs(problem.utilisation(draft.owner) - problem.mean)[level]
    assert np.all((after <= band + 1e-6) | (after <= before.max() + 1e-6))
    if problem.max_moves is not None:
        assert len(problem.moved(draft.owner)) <= problem.max_moves - np.ceil(keep * problem.max_moves)


def test_a_block_goes_where_its_units_alone_would_not() -> None:
    # Units 0 and 1 hold on to each other, and each gets less from node 1 than from its mate.
    table = csr_array(([5.0, 3.0, 3.0], ([0, 0, 1], [1, 2, 3])), shape=(4, 4))
    problem = Problem([1.0] * 4, [0, 0, 1, 1], [100.0, 100.0], traffic=table)
    assert gathered(problem, alone(problem), band=100.0).owner.tolist() != [1, 1, 1, 1]
    as_one = np.array([0, 0, -1, -1], dtype=np.int32)
    assert problem.collocation(gathered(problem, as_one, band=100.0).owner) == 100.0


def test_an_exchange_is_found_where_no_move_is_allowed() -> None:
    table = csr_array(([1.0, 1.0], ([0, 1], [3, 2])), shape=(4, 4))
    problem = Problem([10.0] * 4, [0, 0, 1, 1], [100.0, 100.0], traffic=table, max_moves=2)
    draft = gathered(problem, alone(problem), band=0.0)
    assert problem.collocation(draft.owner) == 100.0
    assert problem.load_distance(draft.owner) == 0.0


def test_the_best_bargain_is_taken_first() -> None:
    table = csr_array(([1.0, 9.0, 3.0], ([0, 1, 2], [3, 4, 5])), shape=(6, 6))
    problem = Problem([1.0] * 6, [0, 0, 0, 1, 1, 1], [100.0, 100.0], traffic=table, max_moves=1)
    draft = gathered(problem, alone(problem), band=100.0)
    assert draft.owner[1] == draft.owner[4]


def test_without_traffic_nothing_moves() -> None:
    problem = Problem([1.0, 2.0], [0, 1], [100.0, 100.0], traffic=csr_array((2, 2)))
    assert gathered(problem, alone(problem), band=100.0).owner.tolist() == [0, 1]
