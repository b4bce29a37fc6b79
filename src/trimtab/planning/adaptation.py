"""One adaptation step: plan, decide whether to scale from that plan, plan again, drain gradually.

How many nodes there should be is decided from a plan that has not been carried out yet. The step is pure: values in,
decisions out. It starts, stops and moves nothing; its caller does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from trimtab.planning.draft import draft_of, empty_closed_nodes, put_all
from trimtab.planning.lptf import lptf
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, Int64Array, Problem, need


@dataclass(frozen=True)
class Scaling:
    """A decision: how many nodes to add, which to start draining, and which draining ones to keep after all.

    Nodes are positions in the problem that was decided on.
    """

    add: int = 0
    drain: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.add or self.drain or self.keep)


@dataclass(frozen=True, kw_only=True)
class ScalingRule:
    """When to grow and when to shrink. Utilisations are percentages of the open nodes' capacity.

    A cluster grows if the plan leaves a node above `high` and the mean is above `target`: an overload that a better
    placement removes needs no new node. It shrinks if the planned mean is below `low`, unless the load can't be
    balanced on the nodes that stay: none above `high`, and a load distance of at most `max_load_distance`, if units may
    be placed anywhere. Both go to the number of nodes that brings the mean to `target`, at once.

    target, low, high    percentages; low < target < high, and the wider apart the rarer nodes come and go
    cool_down_periods    how many periods pass after a change before the next one
    min_nodes, max_nodes how many nodes may be open
    node_capacity        what a new node has of the bottleneck; by default as much as the open nodes on average
    max_load_distance    how well the load has to balance on the nodes that stay
    drain_last           nodes go in the order of their numbers, the last ones first, and not the cheapest to empty: for
                         clusters whose nodes are numbered without gaps

    >>> rule = ScalingRule(target=60, low=40, high=80)
    >>> full = Problem(loads=[45.0, 45.0, 45.0, 45.0], homes=[0, 0, 1, 1], capacities=[100.0, 100.0])
    >>> rule.decide(full, Plan.of(full, full.homes, "stay"))
    Scaling(add=1, drain=(), keep=())

    References: Madsen et al. (2017), sections 4.1 and 4.2, which leave the number of nodes to rules like this one.
    """

    target: float = 60.0
    low: float = 40.0
    high: float = 80.0
    cool_down_periods: int = 3
    min_nodes: int = 1
    max_nodes: int | None = None
    node_capacity: float | None = None
    max_load_distance: float = 10.0
    drain_last: bool = False

    def __post_init__(self) -> None:
        """Raise BalanceError `plan.scaling` for limits that contradict each other."""
        message = f"low {self.low}, target {self.target}, high {self.high}"
        need(0 <= self.low < self.target < self.high, "plan.scaling", message, "they must rise in this order")
        is_range = 1 <= self.min_nodes <= (math.inf if self.max_nodes is None else self.max_nodes)
        message = f"min_nodes {self.min_nodes}, max_nodes {self.max_nodes}"
        need(is_range, "plan.scaling", message, "at least one node, and at most as many as max_nodes")
        are_lengths = self.cool_down_periods >= 0 and (self.node_capacity is None or self.node_capacity > 0)
        message = f"cool_down_periods {self.cool_down_periods}, node_capacity {self.node_capacity}"
        need(are_lengths, "plan.scaling", message, "no negative period, and a capacity above 0")

    def decide(self, problem: Problem, plan: Plan, periods_since_scaling: int | None = None) -> Scaling:
        """What to change, given this plan; `periods_since_scaling` is None if the cluster never changed."""
        if periods_since_scaling is not None and periods_since_scaling < self.cool_down_periods:
            return Scaling()
        now, load = float(problem.work.sum()), self.planned_load(problem, plan)
        levels = problem.utilisation(plan.owner)[problem.open_nodes] * (load / now if now > 0 else 1.0)
        mean = 100.0 * load / float(problem.strength[problem.open_nodes].sum())
        # What is still on draining nodes will be on the open ones: the mean may be above the fullest of them.
        if max(levels.max(), mean) > self.high and mean > self.target:
            return self._grow(problem, load)
        if mean < self.low and not problem.draining.any():
            return self._shrink(problem, load)
        return Scaling()

    def planned_load(self, problem: Problem, plan: Plan) -> float:
        """The load of all units once the plan is carried out: a rule that knows more overrides it."""
        del plan
        return float(problem.work.sum())

    def _grow(self, problem: Problem, load: float) -> Scaling:
        """Keep draining nodes first, the fullest ones: they cost nothing to start."""
        open_nodes = int(np.count_nonzero(problem.open_nodes))
        allowed = max((self.max_nodes or math.inf) - open_nodes, 0)
        lacking = 100.0 * load / self.target - float(problem.strength[problem.open_nodes].sum())
        held = problem.utilisation(problem.homes)
        leaving = np.flatnonzero(problem.draining & (problem.strength > 0))
        keep: list[int] = []
        for node in leaving[np.argsort(-held[leaving], kind="stable")]:
            if lacking > 0 and len(keep) < allowed:
                keep.append(int(node))
                lacking -= float(problem.strength[node])
        each = self.node_capacity or float(problem.strength[problem.open_nodes].mean())
        # A node too many because of rounding would be a costly one.
        add = max(math.ceil(lacking / each - 1e-9), 0)
        return Scaling(add=int(min(add, allowed - len(keep))), keep=tuple(keep))

    def _shrink(self, problem: Problem, load: float) -> Scaling:
        """Drain the nodes that are the cheapest to empty, as many as the target allows and the rest can be balanced."""
        order = np.flatnonzero(problem.open_nodes)[::-1] if self.drain_last else _cheapest_to_empty(problem)
        strength = problem.strength[order]
        left = strength.sum() - np.cumsum(strength)
        enough = (left * self.target / 100.0 * (1 + 1e-9) >= load) & (left > 0)
        # `left` only falls, so the nodes that may go are the first ones.
        count = min(int(np.count_nonzero(enough)), len(order) - self.min_nodes)
        while count > 0:
            drain = order[:count]
            if self._balances_without(problem, drain):
                return Scaling(drain=tuple(sorted(int(node) for node in drain)))
            count //= 2
        return Scaling()

    def _balances_without(self, problem: Problem, drain: Int64Array) -> bool:
        draining = problem.draining.copy()
        draining[drain] = True
        smaller = replace(problem, draining=draining, max_moves=None, max_cost=None)
        plan = lptf(smaller)
        emptied = bool(smaller.open_nodes[plan.owner].all())
        peak = smaller.utilisation(plan.owner)[smaller.open_nodes].max()
        return emptied and bool(peak <= self.high) and plan.load_distance <= self.max_load_distance


def _cheapest_to_empty(problem: Problem) -> Int64Array:
    """The open nodes by what their units cost to move, then by their load."""
    placed = problem.homes != NEW
    costs = np.bincount(problem.homes[placed], problem.move_costs[placed], problem.nodes)
    order = np.lexsort((problem.node_loads(problem.homes), costs))
    return order[problem.open_nodes[order]]


@dataclass(frozen=True)
class ClusterState:
    """What is remembered from period to period. Nodes have numbers that are never used twice.

    nodes                  the numbers of the nodes there are; a problem's node i is `nodes[i]`
    draining               those of them that are to be emptied
    next_node              the number of the next node to be added
    periods_since_scaling  None if it never scaled

    >>> ClusterState.of(3)
    ClusterState(nodes=(0, 1, 2), draining=frozenset(), next_node=3, periods_since_scaling=None)
    """

    nodes: tuple[int, ...]
    draining: frozenset[int]
    next_node: int
    periods_since_scaling: int | None = None

    @classmethod
    def of(cls, nodes: int) -> ClusterState:
        """This many nodes, numbered from 0, none draining."""
        return cls(tuple(range(nodes)), frozenset(), nodes)

    def without(self, nodes: tuple[int, ...]) -> ClusterState:
        """The cluster without these nodes."""
        left = tuple(node for node in self.nodes if node not in nodes)
        return replace(self, nodes=left, draining=self.draining - set(nodes))

    def scaled(self, scaling: Scaling) -> ClusterState:
        """The cluster after a decision of the rule."""
        added = tuple(range(self.next_node, self.next_node + scaling.add))
        kept = {self.nodes[position] for position in scaling.keep}
        drained = {self.nodes[position] for position in scaling.drain}
        return ClusterState(
            nodes=self.nodes + added,
            draining=(self.draining - kept) | drained,
            next_node=self.next_node + scaling.add,
            periods_since_scaling=0,
        )


@dataclass(frozen=True)
class Adaptation:
    """What one step decided. Nodes are given by their numbers in the state.

    state       the cluster from now on
    problem     what the plan is for
    plan        the placement to carry out, within the budget
    terminated  draining nodes that are empty and can be stopped
    added       nodes to start before the plan is carried out
    drained     nodes that are to be emptied from now on
    """

    state: ClusterState
    problem: Problem
    plan: Plan
    terminated: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    drained: tuple[int, ...] = ()

    @property
    def owners(self) -> Int64Array:
        """(units,) the number of each unit's node."""
        return np.asarray(self.state.nodes, dtype=np.int64)[self.plan.owner]


def adapt(
    state: ClusterState,
    problem_of: Callable[[ClusterState], Problem],
    planner: Planner,
    rule: ScalingRule | None = None,
) -> Adaptation:
    """One period of Madsen's Algorithm 1.

    1. Nodes that were to be emptied and are empty are terminated.
    2. A plan is made, but not carried out: it only shows what balancing can do by itself.
    3. The rule decides from that plan whether to grow or to shrink; without a rule nodes neither come nor go.
    4. If it does, a second plan is made for the cluster as it will be: new nodes take units, and draining ones are
       emptied as far as the budget allows, the rest in later periods; the planner weighs one against the other.
    5. What the plan leaves of the budget goes into emptying the draining nodes further. A planner that minimises only
       the load distance may leave the last units where they are, and draining has to end.

    `problem_of(state)` gives the problem on the nodes of a state, in their order, with its draining ones.

    >>> from trimtab.planning.flux import flux
    >>> loads, homes = [20.0, 20.0, 5.0], [0, 0, 1]
    >>> def problem_of(state):
    ...     draining = [node in state.draining for node in state.nodes]
    ...     return Problem(loads, homes, [100.0] * len(state.nodes), draining=draining, max_moves=1)
    >>> rule = ScalingRule(target=60, low=40, high=80)
    >>> first = adapt(ClusterState.of(2), problem_of, flux, rule)
    >>> first.drained, first.owners.tolist()
    ((1,), [0, 0, 0])
    >>> homes = first.owners.tolist()
    >>> adapt(first.state, problem_of, flux, rule).terminated
    (1,)
    """
    problem = _checked(problem_of(state), state)
    held = np.bincount(problem.homes[problem.homes != NEW], minlength=problem.nodes)
    empty = problem.draining & (held == 0)
    terminated = tuple(node for node, gone in zip(state.nodes, empty, strict=True) if gone)
    if terminated:
        state = state.without(terminated)
        problem = _checked(problem_of(state), state)
    plan = planner(problem)
    since = state.periods_since_scaling
    scaling = rule.decide(problem, plan, since) if rule is not None else Scaling()
    if not scaling:
        waited = replace(state, periods_since_scaling=None if since is None else since + 1)
        return Adaptation(waited, problem, _emptied_further(problem, plan), terminated)
    before, state = state, state.scaled(scaling)
    problem = _checked(problem_of(state), state)
    return Adaptation(
        state=state,
        problem=problem,
        plan=_emptied_further(problem, planner(problem)),
        terminated=terminated,
        added=state.nodes[len(before.nodes) :],
        drained=tuple(sorted(state.draining - before.draining)),
    )


def _emptied_further(problem: Problem, plan: Plan) -> Plan:
    """The plan, with what it leaves of the budget spent on emptying closed nodes."""
    if bool(problem.open_nodes[plan.owner].all()):
        return plan
    started = time.perf_counter()
    draft = draft_of(problem)
    put_all(draft, plan.owner)
    empty_closed_nodes(problem, draft)
    seconds = plan.seconds + time.perf_counter() - started
    return Plan.of(problem, draft.owner, plan.planner, lower_bound=plan.lower_bound, seconds=seconds)


def _checked(problem: Problem, state: ClusterState) -> Problem:
    is_the_same = problem.draining.tolist() == [node in state.draining for node in state.nodes]
    message = f"the problem has {problem.nodes} nodes, {int(problem.draining.sum())} of them draining"
    hint = f"the state has {len(state.nodes)} nodes and drains {sorted(state.draining)}, in the order of `nodes`"
    need(is_the_same, "plan.state", message, hint)
    return problem
