import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.brute_force import brute_force
from trimtab.errors import BalanceError
from trimtab.planning.adaptation import ClusterState, Scaling, ScalingRule, adapt
from trimtab.planning.flux import flux
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem

RULE = ScalingRule(target=60, low=40, high=80, cool_down_periods=2)


class Cluster:
    """Units of changing load on nodes of capacity 100, adapted period by period."""

    def __init__(self, nodes: int, units: int, *, max_moves: int | None = None) -> None:
        self.state, self.loads, self.max_moves = ClusterState.of(nodes), np.zeros(units), max_moves
        self.owners = np.arange(units) % nodes

    def problem_of(self, state: ClusterState) -> Problem:
        homes = [state.nodes.index(node) for node in self.owners]
        draining = [node in state.draining for node in state.nodes]
        return Problem(self.loads, homes, np.full(len(state.nodes), 100.0), draining=draining, max_moves=self.max_moves)

    def period(self, total: float, rule: ScalingRule | None = RULE) -> tuple[int, int]:
        """Spread so much load over the units and adapt; how many nodes there are, and how many of them drain."""
        self.loads = np.full(len(self.loads), total / len(self.loads))
        step = adapt(self.state, self.problem_of, flux, rule)
        assert step.problem.faults(step.plan.owner) == []
        assert set(step.owners) <= set(step.state.nodes)
        self.state, self.owners = step.state, step.owners
        return len(self.state.nodes), len(self.state.draining)


def decide(problem: Problem, rule: ScalingRule = RULE) -> Scaling:
    return rule.decide(problem, Plan.of(problem, problem.homes, "stay"))


def even(nodes: int, level: float, **options: object) -> Problem:
    """Ten equal units on each of n nodes."""
    homes = np.repeat(np.arange(nodes), 10)
    return Problem(np.full(10 * nodes, level / 10), homes, np.full(nodes, 100.0), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("level", "change"), [(39.0, -1), (41.0, 0), (60.0, 0), (79.0, 0), (81.0, 2), (100.0, 4)])
def test_nodes_change_outside_the_band_only_and_then_to_the_target(level: float, change: int) -> None:
    scaling = decide(even(5, level))
    assert scaling.add - len(scaling.drain) == change
    if change:
        assert 5 + change == math.ceil(5 * level / 60)


def test_an_overload_that_a_better_placement_removes_needs_no_new_node() -> None:
    crowded = Problem([45.0, 45.0, 1.0], [0, 0, 1], [100.0, 100.0], max_moves=1)
    assert not decide(crowded)  # 90 % on one node, 45 % in the mean
    busy = Problem([45.0, 45.0, 40.0], [0, 0, 1], [100.0, 100.0], max_moves=1)
    assert decide(busy).add == 1


def test_the_plan_is_what_counts_and_not_the_present() -> None:
    problem = Problem([30.0, 30.0, 30.0, 50.0], [0, 0, 0, 1], [100.0, 100.0])
    assert decide(problem).add == 1
    assert not RULE.decide(problem, flux(problem))


def test_no_node_goes_if_the_rest_could_not_be_balanced() -> None:
    lumps = Problem(np.full(7, 50.0), np.arange(7), np.full(10, 100.0))
    # Six nodes would do by the sum, and one of them would have two lumps, which is 100 %.
    assert decide(lumps, replace(RULE, max_load_distance=100.0)).drain == (7, 8)
    assert not decide(lumps)
    assert not decide(Problem([75.0, 1.0, 1.0], [0, 1, 2], np.full(3, 100.0)))


def test_the_cheapest_nodes_to_empty_go_first() -> None:
    costs = np.repeat([5.0, 1.0, 9.0, 1.0], 10)
    problem = even(4, 20.0, move_costs=costs)
    assert decide(problem).drain == (1, 3)


def test_draining_nodes_are_kept_before_new_ones_are_added() -> None:
    problem = even(4, 70.0, draining=[False, False, False, True])
    assert decide(problem) == Scaling(add=1, keep=(3,))


def test_the_number_of_nodes_stays_within_its_limits() -> None:
    assert decide(even(5, 100.0), replace(RULE, max_nodes=6)).add == 1
    assert decide(even(5, 100.0), replace(RULE, max_nodes=5)).add == 0
    assert len(decide(even(5, 1.0), replace(RULE, min_nodes=3)).drain) == 2
    assert len(decide(even(5, 0.0)).drain) == 4


def test_new_nodes_may_be_of_another_size() -> None:
    assert decide(even(4, 90.0), replace(RULE, node_capacity=50.0)).add == 4


@given(level=st.floats(0, 200), nodes=st.integers(1, 12))
def test_one_decision_is_enough(level: float, nodes: int) -> None:
    before = even(nodes, level)
    scaling = decide(before)
    after = nodes + scaling.add - len(scaling.drain)
    assert not decide(even(after, level * nodes / after))


def test_a_cluster_follows_its_load_and_waits_between_changes() -> None:
    cluster = Cluster(2, 60)
    assert [cluster.period(100) for _ in range(2)] == [(2, 0), (2, 0)]
    assert cluster.period(300) == (5, 0)
    # It is to shrink at once, and has to wait for two periods.
    assert [cluster.period(60) for _ in range(4)] == [(5, 0), (5, 0), (5, 4), (1, 0)]
    assert cluster.state.nodes[0] in range(5)


def test_nodes_are_emptied_gradually_within_the_budget() -> None:
    cluster = Cluster(4, 40, max_moves=4)
    sizes = [cluster.period(60) for _ in range(9)]
    assert sizes[0] == (4, 3)
    assert sizes[-1] == (1, 0)
    nodes = [count for count, _ in sizes]
    assert nodes == sorted(nodes, reverse=True)
    assert nodes.count(4) >= 3


def test_draining_ends_even_if_the_planner_would_rather_leave_a_unit_there() -> None:
    loads, homes = [10.0, 10.0, 10.0, 3.0], [0, 1, 2, 3]
    draining = np.array([False, False, False, True])
    problem = Problem(loads, homes, [100.0] * 4, draining=draining)
    assert brute_force(problem).owner.tolist() == homes  # one node at 13 would be farther from the mean of 11
    state = ClusterState(nodes=(0, 1, 2, 3), draining=frozenset({3}), next_node=4)
    step = adapt(state, lambda _: problem, brute_force)
    assert step.plan.moves.tolist() == [3]
    spent = replace(problem, max_moves=0)
    assert adapt(state, lambda _: spent, brute_force).plan.moves.tolist() == []


def test_numbers_of_nodes_are_never_used_twice() -> None:
    cluster = Cluster(4, 40)
    while len(cluster.state.nodes) > 1:
        cluster.period(60)
    for _ in range(3):
        cluster.period(300)
    assert min(set(cluster.state.nodes) - set(range(4))) == 4


def test_without_a_rule_nothing_scales() -> None:
    cluster = Cluster(2, 20)
    assert cluster.period(1000, rule=None) == (2, 0)


def test_a_problem_on_other_nodes_is_refused() -> None:
    problem = even(3, 50.0)
    with pytest.raises(BalanceError, match=r"plan\.state"):
        adapt(ClusterState.of(2), lambda _: problem, flux)


@pytest.mark.parametrize(
    "options",
    [
        {"low": 70.0},
        {"high": 50.0},
        {"min_nodes": 0},
        {"max_nodes": 0},
        {"cool_down_periods": -1},
        {"node_capacity": 0.0},
    ],
)
def test_rules_that_contradict_themselves_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(BalanceError, match=r"plan\.scaling"):
        replace(RULE, **options)  # type: ignore[arg-type]
