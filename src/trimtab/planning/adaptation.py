"""One adaptation step: plan, decide whether to scale from that plan, plan again, drain gradually.

The step is pure: values in, decisions out. It starts, stops and moves nothing; its caller does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from trimtab.planning.draft import draft_of, empty_closed_nodes, put_all
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, Int64Array, Problem, need
from trimtab.planning.scaling_rule import Scaling, ScalingRule


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
