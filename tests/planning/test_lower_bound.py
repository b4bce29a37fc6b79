from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.problems import problems, started
from tests.support.brute_force import brute_force
from trimtab.planning.local_search import Best
from trimtab.planning.lower_bound import (
    affordable_moves,
    bargains_of,
    cost_may_suffice,
    crowding,
    lower_bound,
    starving,
    undrained,
)
from trimtab.planning.milp import milp
from trimtab.planning.move_patterns import CLASSES, FittingPatterns, Outcome, patterns_of, size_classes
from trimtab.planning.moves_needed import FEW, Loads, loads_of, may_suffice
from trimtab.planning.problem import Float64Array, Int64Array, Problem
from trimtab_lab.workloads.clusters import synthetic_cluster


@settings(max_examples=150)
@given(problem=problems())
def test_no_bound_is_above_the_best_placement(problem: Problem) -> None:
    best = brute_force(problem).load_distance
    almost = best + 1e-7
    assert crowding(problem) <= almost
    assert starving(problem) <= almost
    assert undrained(problem) <= almost
    assert lower_bound(problem) <= almost


def patterns_within(problem: Problem, moves: int, *, classes: int = CLASSES, seed: int = 1) -> FittingPatterns:
    loads = loads_of(problem)
    edges = size_classes(loads.heaviest, classes)
    return FittingPatterns(problem, moves, loads, edges, np.random.default_rng(seed))


@settings(max_examples=150)
@given(problem=problems(), classes=st.integers(1, 4))
def test_what_is_possible_is_never_proved_impossible(problem: Problem, classes: int) -> None:
    best = brute_force(problem).load_distance
    loads, moves = loads_of(problem), affordable_moves(problem)
    assert may_suffice(loads, problem.mean, best, moves)
    assert may_suffice(loads, problem.mean, best, moves + FEW)  # by the other way of adding up
    assert cost_may_suffice(problem, loads, bargains_of(problem), best)
    if loads.new == 0.0 and len(loads.heaviest):
        assert not patterns_within(problem, moves, classes=classes).rule_out(best)


@settings(max_examples=60)
@given(problem=problems(most_nodes=3, most_units=6), distance=st.floats(0, 60), moves=st.integers(0, 4))
def test_the_compiled_sums_of_moves_are_those_of_a_plain_loop(problem: Problem, distance: float, moves: int) -> None:
    loads = loads_of(problem)
    assert may_suffice(loads, problem.mean, distance, moves) == may_suffice_plain(loads, problem, distance, moves)


def may_suffice_plain(loads: Loads, problem: Problem, distance: float, moves: int) -> bool:
    """Every (p, q) that may do for each node, and every choice of one for each."""
    slack = 1e-9 * (problem.mean + distance) + 1e-9
    choices = []
    for node in range(problem.nodes):
        own = sorted(loads.own[loads.first[node] : loads.first[node + 1]])
        others = sorted(loads.heaviest[loads.homes != node])
        if not loads.open_nodes[node]:
            choices.append({(out, 0) for out in range(min(len(own), moves) + 1)})
            continue
        per_point = loads.strength[node] / 100
        below = (problem.mean - distance - slack) * per_point - loads.at_home[node]
        above = (problem.mean + distance + slack) * per_point - loads.at_home[node]
        may = set()
        for out, into in product(range(min(len(own), moves) + 1), range(min(len(others), moves) + 1)):
            most = heaviest(others, into) - lightest(own, out) + loads.new
            least = lightest(others, into) - heaviest(own, out)
            exact = True
            if loads.new == 0:
                if (out, into) == (1, 0):
                    exact = any(below <= -one <= above for one in own)
                elif (out, into) == (2, 0):
                    exact = any(below <= -own[i] - own[j] <= above for i in range(len(own)) for j in range(i))
                elif (out, into) == (0, 1):
                    exact = any(below <= one <= above for one in loads.heaviest)
            if most >= below and least <= above and exact:
                may.add((out, into))
        choices.append(may)
    sums = {(0, 0)}
    for may in choices:
        sums = {(p + out, q + into) for p, q in sums for out, into in may if p + out <= moves and q + into <= moves}
    return any(p == q for p, q in sums)


@settings(max_examples=60)
@given(
    problem=problems(most_nodes=3, most_units=6, new_units=False), distance=st.floats(0, 60), moves=st.integers(0, 3)
)
def test_the_patterns_are_those_of_a_plain_loop(problem: Problem, distance: float, moves: int) -> None:
    loads = loads_of(problem)
    if not len(loads.heaviest):
        return
    edges = size_classes(loads.heaviest, 2)
    patterns = patterns_of(loads, edges, problem.mean, distance, moves)
    assert patterns is not None
    net = (patterns.sent - patterns.got).tolist()
    found = {
        (int(node), tuple(more)): int(moves)
        for node, moves, more in zip(patterns.node, patterns.moves, net, strict=True)
    }
    assert (patterns.sent >= 0).all()
    assert (patterns.got >= 0).all()
    assert found == patterns_plain(loads, edges, problem, distance, moves)


def patterns_plain(
    loads: Loads, edges: Float64Array, problem: Problem, distance: float, moves: int
) -> dict[tuple[int, tuple[int, ...]], int]:
    """Every number of units of each class out and in, of which the fewest for each difference are kept."""
    slack = 1e-9 * (problem.mean + distance) + 1e-9
    kinds, places = len(edges), [int(node) for node in np.flatnonzero(loads.open_nodes)]
    reach, fewest = {}, {}
    for node in places:
        per_point = loads.strength[node] / 100
        below = (problem.mean - distance - slack) * per_point - loads.at_home[node]
        above = (problem.mean + distance + slack) * per_point - loads.at_home[node]
        reach[node] = below, above
        own, every = sorted(loads.own[loads.first[node] : loads.first[node + 1]]), sorted(loads.heaviest)
        fewest[node] = min(
            (
                out + into
                for out, into in product(range(min(len(own), moves) + 1), range(min(len(every), moves) + 1))
                if heaviest(every, into) - lightest(own, out) >= below
                and lightest(every, into) - heaviest(own, out) <= above
            ),
            default=2 * moves + 1,
        )
    spare = 2 * moves - sum(fewest.values())
    found: dict[tuple[int, tuple[int, ...]], int] = {}
    for node in places if spare >= 0 else []:
        mine, others = loads.own[loads.first[node] : loads.first[node + 1]], loads.heaviest[loads.homes != node]
        own_by = [sorted(mine[kind_of(mine, edges) == kind]) for kind in range(kinds)]
        others_by = [sorted(others[kind_of(others, edges) == kind]) for kind in range(kinds)]
        for numbers in product(*(range(len(units) + 1) for units in own_by + others_by)):
            sent = [(units, count) for units, count in zip(own_by, numbers[:kinds], strict=True)]
            got = [(units, count) for units, count in zip(others_by, numbers[kinds:], strict=True)]
            most = sum(heaviest(*one) for one in got) - sum(lightest(*one) for one in sent)
            least = sum(lightest(*one) for one in got) - sum(heaviest(*one) for one in sent)
            if sum(numbers) > min(fewest[node] + spare, 2 * moves) or most < reach[node][0] or least > reach[node][1]:
                continue
            key = (node, tuple(out - into for out, into in zip(numbers[:kinds], numbers[kinds:], strict=True)))
            found[key] = min(found.get(key, sum(numbers)), sum(numbers[:kinds]))
    return found


def heaviest(rising: list[float], count: int) -> float:
    return float(sum(rising[len(rising) - count :]))


def lightest(rising: list[float], count: int) -> float:
    return float(sum(rising[:count]))


def kind_of(work: Float64Array, edges: Float64Array) -> Int64Array:
    return np.array([int(np.argmax(one >= edges)) for one in work], dtype=np.int64)


@settings(max_examples=100)
@given(problem=problems(new_units=False), seed=st.integers(0, 9))
def test_a_start_from_patterns_keeps_the_rules_and_is_never_said_to_be_impossible(problem: Problem, seed: int) -> None:
    best, moves = brute_force(problem).load_distance, affordable_moves(problem)
    if not problem.units:
        return
    problem, board = started(problem)
    assert patterns_within(problem, moves, seed=seed).lay_out(board, best, 60.0) is not Outcome.IMPOSSIBLE
    assert problem.faults(board.units["owner"]) == []


def test_a_start_from_patterns_has_about_the_distance_that_it_aims_at() -> None:
    problem = synthetic_cluster(20, 400, varies=40.0, seed=1)
    problem, board = started(problem)
    assert patterns_within(problem, 20).lay_out(board, 0.15, 60.0) is Outcome.LAID_OUT
    assert Best.of(board).distance < 2.0 < problem.load_distance(problem.homes)
    problem, board = started(problem)
    assert patterns_within(problem, 20).lay_out(board, 0.001, 60.0) is Outcome.IMPOSSIBLE


def test_more_moves_never_raise_the_bound() -> None:
    problem = synthetic_cluster(20, 400, varies=40.0, seed=3)
    bounds = [lower_bound(replace(problem, max_moves=moves)) for moves in (0, 1, 5, 10, 20, 40, FEW, FEW + 1, 400)]
    assert all(later <= sooner * (1 + 1e-5) for sooner, later in pairwise(bounds))
    assert bounds[0] == pytest.approx(problem.load_distance(problem.homes), rel=1e-5)


@pytest.mark.parametrize("varies", [30.0, 50.0])
def test_with_few_moves_the_bound_is_close_to_what_is_found(varies: float) -> None:
    problem = synthetic_cluster(60, 1200, varies=varies, seed=3)
    plan = milp(problem, effort=200_000, time_limit_s=60.0)
    assert lower_bound(problem) >= 0.95 * plan.load_distance


def test_the_pattern_bound_knows_that_a_unit_sent_is_a_unit_got() -> None:
    # The other bounds let every node have the units that suit it best, from any node.
    problem = synthetic_cluster(20, 400, varies=40.0, seed=8)
    plan = milp(problem, effort=300_000, time_limit_s=60.0)
    simple = lower_bound(problem)
    better = patterns_within(problem, 20).bound(simple, plan.load_distance, lambda: True)
    assert simple < 0.7 * plan.load_distance
    assert better > 0.95 * plan.load_distance


def test_out_of_time_the_pattern_bound_is_what_was_known() -> None:
    problem = synthetic_cluster(20, 400, varies=40.0, seed=8)
    assert patterns_within(problem, 20).bound(0.1, 1.0, lambda: False) == 0.1


def test_a_budget_in_cost_bounds_as_one_in_moves_does() -> None:
    problem = synthetic_cluster(20, 400, varies=50.0, seed=1, max_moves=5)
    priced = replace(problem, max_moves=None, max_cost=5.0)  # a move costs 1
    assert lower_bound(priced) == pytest.approx(lower_bound(problem), rel=1e-5)


def test_dear_units_are_not_counted_as_if_they_were_cheap() -> None:
    loads, homes = np.full(10, 5.0), np.zeros(10)
    cheap = Problem(loads, homes, [100.0, 100.0], move_costs=np.ones(10), max_cost=5.0)
    dear = replace(cheap, move_costs=np.full(10, 3.0))
    assert lower_bound(cheap) == pytest.approx(0, abs=1e-6)
    assert lower_bound(dear) == pytest.approx(20, abs=1e-4)
