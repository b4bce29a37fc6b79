"""PlacedUnits: units on nodes, period by period, moved by any planner. Traffic across nodes costs load; so do moves.

There are no queues and no messages here: a period is one set of loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.planning.adaptation import ClusterState, ScalingRule, adapt
from trimtab.planning.plan import Planner
from trimtab.planning.problem import NEW, Float64Array, Int32Array, Int64Array, Problem
from trimtab_lab.workloads.clusters import node_changes

if TYPE_CHECKING:
    from scipy.sparse import sparray

Drift = Callable[[Float64Array, Int64Array, np.random.Generator], Float64Array]
"""The units' work in the next period, from their work now, the numbers of their nodes and a random generator."""


def steady(work: Float64Array, owners: Int64Array, rng: np.random.Generator) -> Float64Array:  # noqa: ARG001
    """No drift: every period is like the one before."""
    return work


def node_drift(percent: float, share: float = 0.2) -> Drift:
    """In each period the units on a `share` of the nodes change their work by up to `percent` percent (Madsen, 5.3)."""

    def drift(work: Float64Array, owners: Int64Array, rng: np.random.Generator) -> Float64Array:
        nodes, position = np.unique(owners, return_inverse=True)
        return work * node_changes(len(nodes), percent, share, rng)[position]

    return drift


@dataclass(frozen=True)
class Job:
    """What runs: the units, their work, and what moves and traffic cost. Loads are per period.

    work              (units,)        the load of a unit by itself
    traffic           (units, units)  the amount that a unit sends to another one
    state_bytes       (units,)        the size of a unit's state; moves cost by it
    operators         (units,)        the operator of each unit
    serialise_load    load on the sender for each unit of traffic that leaves its node
    deserialise_load  load on its receiver
    move_load         load on the old node and on the new one for each byte of state moved, in the period of the move
    pause_s           how long a move pauses a unit
    pause_s_per_byte  the additional pause for each byte of its state
    """

    work: Float64Array
    traffic: sparray | None = None
    state_bytes: npt.ArrayLike | None = None
    operators: npt.ArrayLike | None = None
    serialise_load: float = 0.0
    deserialise_load: float = 0.0
    move_load: float = 0.0
    pause_s: float = 2.5
    pause_s_per_byte: float = 0.0


@dataclass(frozen=True)
class Period:
    """The measures of one period, after its moves.

    load_distance  of the open nodes, without what moving cost, in percentage points
    load_index     mean utilisation relative to that before any move, in percent; with what moving cost
    mean_load      mean utilisation of the open nodes in percent; with what moving cost
    peak_load      utilisation of the fullest open node, without what moving cost
    collocation    percentage of the traffic that stays inside a node
    moves          units moved
    pause_s        the pauses of all moved units together
    nodes          number of nodes, draining ones included
    draining       nodes that are being emptied
    """

    load_distance: float
    load_index: float
    mean_load: float
    peak_load: float
    collocation: float
    moves: int
    pause_s: float
    nodes: int
    draining: int


@dataclass
class PlacedUnits:
    """A cluster that runs a job. `step` is a period: work drifts, a planner plans, and moves are made at their cost.

    job         what runs
    homes       (units,)  the node of each unit at the start
    capacities  of the nodes, which are numbered from 0 on; numbers are never used twice
    max_moves, max_cost   the budget of a period
    drift       how the work of units changes from period to period
    rule        when nodes are added and drained; None: only by `add_nodes` and `drain_nodes`
    seed        of the drift

    >>> job = Job(work=np.array([30.0, 20.0, 10.0]))
    >>> cluster = PlacedUnits(job, homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
    >>> from trimtab.planning.flux import flux
    >>> [(period.load_distance, period.moves) for period in run(cluster, flux, periods=2)]
    [(30.0, 0), (0.0, 1), (0.0, 0)]
    """

    job: Job
    homes: npt.ArrayLike
    capacities: Sequence[float]
    max_moves: int | None = None
    max_cost: float | None = None
    drift: Drift = steady
    rule: ScalingRule | None = None
    seed: int = 0
    owners: Int64Array = field(init=False)
    work: Float64Array = field(init=False)
    state: ClusterState = field(init=False)

    def __post_init__(self) -> None:
        """Put the units on their nodes."""
        self.work = np.asarray(self.job.work, dtype=np.float64)
        self.owners = np.asarray(self.homes, dtype=np.int64).copy()
        self.state = ClusterState.of(len(self.capacities))
        self._capacity_of = dict(enumerate(map(float, self.capacities)))
        self._rng = np.random.default_rng(self.seed)
        pairs = None if self.job.traffic is None else self.job.traffic.tocoo()
        self._pairs = None if pairs is None else (*pairs.coords, pairs.data)
        self._first_mean = self._mean(self.problem_of(self.state), self._owner(self.state))

    def unit_loads(self, owners: Int64Array) -> Float64Array:
        """The load of each unit in a placement: its own work, and its share of the traffic across nodes."""
        if self._pairs is None:
            return self.work
        senders, receivers, amounts = self._pairs
        across = owners[senders] != owners[receivers]
        amounts, count = amounts[across], len(self.work)
        sending = np.bincount(senders[across], weights=amounts, minlength=count)
        receiving = np.bincount(receivers[across], weights=amounts, minlength=count)
        crossing: Float64Array = self.job.serialise_load * sending + self.job.deserialise_load * receiving
        return self.work + crossing

    def problem_of(self, state: ClusterState) -> Problem:
        """The planner's input: the present loads, on the nodes of a state."""
        for node in state.nodes:
            self._capacity_of.setdefault(node, self._capacity_of_a_new_node())
        return Problem(
            loads=self.unit_loads(self.owners),
            homes=self._owner(state),
            capacities=[self._capacity_of[node] for node in state.nodes],
            draining=[node in state.draining for node in state.nodes],
            state_bytes=self.job.state_bytes,
            traffic=self.job.traffic,
            operators=self.job.operators,
            max_moves=self.max_moves,
            max_cost=self.max_cost,
        )

    def measure(self) -> Period:
        """The measures of the cluster as it is, with nothing moved."""
        return self._period(self.problem_of(self.state), np.zeros(0, dtype=np.int64), self.owners)

    def step(self, planner: Planner) -> Period:
        """One period: drift, adapt, move, measure."""
        self.work = self.drift(self.work, self.owners, self._rng)
        adaptation = adapt(self.state, self.problem_of, planner, self.rule)
        before, self.owners, self.state = self.owners, adaptation.owners, adaptation.state
        # The same nodes, with the loads that units have after the moves.
        return self._period(self.problem_of(self.state), adaptation.plan.moves, before)

    def add_nodes(self, capacities: Sequence[float]) -> tuple[int, ...]:
        """Add nodes; return their numbers."""
        first = self.state.next_node
        numbers = tuple(range(first, first + len(capacities)))
        self._capacity_of.update(zip(numbers, map(float, capacities), strict=True))
        self.state = ClusterState(
            self.state.nodes + numbers, self.state.draining, first + len(numbers), self.state.periods_since_scaling
        )
        return numbers

    def drain_nodes(self, nodes: Sequence[int]) -> None:
        """Remove nodes once they are empty."""
        self._check_known(nodes)
        state = self.state
        draining = state.draining | set(nodes)
        self.state = ClusterState(state.nodes, draining, state.next_node, state.periods_since_scaling)

    def fail_nodes(self, nodes: Sequence[int]) -> None:
        """Remove nodes at once. Their units have no node until the next period's plan gives them one."""
        self._check_known(nodes)
        self.state = self.state.without(tuple(nodes))
        self.owners = np.where(np.isin(self.owners, list(nodes)), NEW, self.owners)

    def _check_known(self, nodes: Sequence[int]) -> None:
        if unknown := sorted(set(nodes) - set(self.state.nodes)):
            raise BalanceError(
                "simulate.nodes", f"there is no node {unknown[0]}", f"there are {list(self.state.nodes)}"
            )

    def _capacity_of_a_new_node(self) -> float:
        if self.rule is not None and self.rule.node_capacity is not None:
            return self.rule.node_capacity
        return float(np.mean([self._capacity_of[node] for node in self.state.nodes]))

    def _owner(self, state: ClusterState) -> Int32Array:
        """Owners as positions among the nodes of a state."""
        position = np.full(max(state.next_node, 1) + 1, NEW, dtype=np.int32)  # its last entry is that of NEW
        position[list(state.nodes)] = np.arange(len(state.nodes), dtype=np.int32)
        return position[self.owners]

    def _mean(self, problem: Problem, owner: Int32Array, extra: float = 0.0) -> float:
        strength = float(problem.strength[problem.open_nodes].sum())
        return 100.0 * (float(problem.node_loads(owner).sum()) + extra) / strength

    def _period(self, problem: Problem, moved: Int64Array, before: Int64Array) -> Period:
        owner, job = problem.homes, self.job
        homeless = int(np.count_nonzero((before == NEW) & (self.owners != NEW)))  # their nodes had failed
        state_moved = float(problem.state_bytes[moved].sum())
        mean = self._mean(problem, owner, 2 * job.move_load * state_moved)
        return Period(
            load_distance=problem.load_distance(owner),
            load_index=100.0 * mean / self._first_mean if self._first_mean > 0 else 100.0,
            mean_load=mean,
            peak_load=float(problem.utilisation(owner)[problem.open_nodes].max()),
            collocation=problem.collocation(owner),
            moves=len(moved),
            pause_s=job.pause_s * (len(moved) + homeless) + job.pause_s_per_byte * state_moved,
            nodes=problem.nodes,
            draining=int(problem.draining.sum()),
        )


def run(cluster: PlacedUnits, planner: Planner, *, periods: int) -> list[Period]:
    """The measures of the cluster at the start, and after each of `periods` periods."""
    if periods < 0:
        raise BalanceError("simulate.periods", f"{periods} periods", "0 or more")
    return [cluster.measure()] + [cluster.step(planner) for _ in range(periods)]
