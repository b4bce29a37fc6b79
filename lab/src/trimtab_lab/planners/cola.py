"""COLA: place everything anew by splitting the graph of units until the parts balance."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import time

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import affordable, by_load, draft_of, fits, least_filled, put
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Float64Array, Int32Array, Int64Array, Problem, no_room
from trimtab_lab.planners.collocation_sets import traffic_both_ways
from trimtab_lab.planners.graph_partition import bisect_graph


def cola(problem: Problem, *, max_load_distance: float = 10.0, seed: int = 0) -> Plan:
    """Split all units into balanced partitions with little traffic between them until they spread evenly enough.

    All units are one partition at first. The heaviest partition is cut in two, and the partitions are put on the nodes,
    heaviest first, each on the node that it leaves the least utilised, again and again until the load distance is at
    most `max_load_distance` (or every unit stands alone: then the best one seen is taken).

    It starts from scratch: where units live now plays no part, so nearly all of them move. With a budget it makes only
    the most valuable of those moves: out of nodes that take no units first, then by the traffic that a move brings
    inside a node, skipping moves that would raise the load distance over the limit. The budget is kept exactly.

    >>> from scipy.sparse import csr_array
    >>> traffic = csr_array(([5.0, 5.0], ([0, 1], [3, 2])), shape=(4, 4))
    >>> problem = Problem([10.0, 10.0, 10.0, 10.0], [0, 0, 1, 1], [100.0, 100.0], traffic=traffic)
    >>> plan = cola(problem)
    >>> plan.collocation, plan.load_distance
    (100.0, 0.0)

    References: Khandekar et al. (2009), as Madsen et al. (2017) describe it in sections 2.1 and 5.3.
    """
    started = time.perf_counter()
    wanted = _from_scratch(problem, max_load_distance, seed)
    owner = _as_far_as_allowed(problem, wanted, max_load_distance)
    return Plan.of(problem, owner, "cola", seconds=time.perf_counter() - started)


def _from_scratch(problem: Problem, max_load_distance: float, seed: int) -> Int32Array:
    edges = traffic_both_ways(problem)
    partitions: list[Int64Array] = [np.arange(problem.units)]
    best = np.zeros(problem.units, dtype=np.int32)
    best_distance = np.inf
    # No node may hold more than this, so while the heaviest partition does there is no use in placing them.
    most = float(problem.strength[problem.open_nodes].max()) * (problem.mean + max_load_distance) / 100
    next_try = 0
    while True:
        weights = np.array([float(problem.work[part].sum()) for part in partitions])
        sizes = np.array([len(part) for part in partitions])
        done = bool(np.all(sizes <= 1))
        if done or (weights.max() <= most and len(partitions) >= next_try):
            owner, fits = _spread(problem, partitions, weights)
            distance = problem.load_distance(owner) if problem.units else 0.0
            if (fits and distance < best_distance) or (done and not np.isfinite(best_distance)):
                best, best_distance = owner, distance
            if done or best_distance <= max_load_distance:
                return best
            # Placing is the dear part once there are many: then only after every hundredth of splits more.
            next_try = len(partitions) + max(1, len(partitions) // 100)
        heaviest = int(np.where(sizes > 1, weights, -1.0).argmax())
        part = partitions[heaviest]
        first = bisect_graph(problem.work[part], edges[part][:, part], seed=seed)
        partitions[heaviest : heaviest + 1] = [part[first], part[~first]]


def _spread(problem: Problem, partitions: list[Int64Array], weights: Float64Array) -> tuple[Int32Array, bool]:
    """Put the partitions on nodes, heaviest first, each where it leaves the lowest utilisation.

    The second answer says whether the resources beside the bottleneck sufficed.
    """
    nodes = np.flatnonzero(problem.open_nodes)
    strength, used = problem.strength[nodes], np.zeros(len(nodes))
    others = np.arange(problem.loads.shape[1]) != problem.bottleneck
    room = problem.capacities[nodes][:, others]
    owner = np.zeros(problem.units, dtype=np.int32)
    fits = True
    for index in np.argsort(-weights, kind="stable"):
        members = partitions[index]
        after = (used + weights[index]) / strength
        if others.any():
            need = problem.loads[members][:, others].sum(axis=0)
            roomy = np.all(need <= room, axis=1)
            fits &= bool(roomy.any())
            after = np.where(roomy, after, np.inf) if roomy.any() else after
        node = int(after.argmin())
        used[node] += weights[index]
        if others.any():
            room[node] -= need
        owner[members] = nodes[node]
    return owner, fits


def _as_far_as_allowed(problem: Problem, wanted: Int32Array, max_load_distance: float) -> Int32Array:
    """Make the most valuable of the moves to `wanted` that the budget and the other resources allow."""
    if not problem.faults(wanted):
        return wanted
    draft = draft_of(problem)
    stuck = _place_new_ones(draft, by_load(problem, np.flatnonzero(problem.homes == NEW)), wanted)
    if stuck >= 0:
        raise no_room(stuck)
    _go(draft, _by_value(problem, wanted), wanted, problem.mean, max_load_distance)
    return draft.owner


def _by_value(problem: Problem, wanted: Int32Array) -> Int64Array:
    """The units to move, most valuable first."""
    edges = traffic_both_ways(problem).tocoo()
    one, other = edges.coords
    inside_after, inside_now = wanted[one] == wanted[other], problem.homes[one] == problem.homes[other]
    gained = edges.data * (inside_after.astype(np.float64) - inside_now.astype(np.float64))
    value = np.bincount(one, weights=gained, minlength=problem.units)
    moving = problem.moved(wanted)
    stays_open = problem.open_nodes[problem.homes[moving]]
    return moving[np.lexsort((-problem.work[moving], -value[moving], stays_open))]


@kernel
def _place_new_ones(draft, units, wanted):
    """Put units where they are wanted, or else on the least filled node with room; the first one left over, or -1."""
    for unit in units:
        node = wanted[unit] if fits(draft, unit, wanted[unit]) else least_filled(draft, unit)
        if node < 0:
            return unit
        put(draft, unit, node)
    return -1


@kernel
def _go(draft, units, wanted, mean, max_load_distance):
    """Move units where they are wanted, in this order, round after round while a move makes room for another."""
    pending, moved = np.ones(units.size, dtype=np.bool_), True
    while moved:
        moved = False
        for index, unit in enumerate(units):
            node = wanted[unit]
            if not pending[index] or not fits(draft, unit, node) or not affordable(draft, unit, node):
                continue
            if _stays_level(draft, unit, node, mean, max_load_distance):
                put(draft, unit, node)
                pending[index] = False
                moved = True


@kernel
def _stays_level(draft, unit, node, mean, max_load_distance):
    """Whether neither end of a move gets past the load distance, or farther past it than it is."""
    for place, change in ((draft.owner[unit], -draft.work[unit]), (node, draft.work[unit])):
        if draft.open_nodes[place]:
            before = abs(100 * draft.loads[place] / draft.strength[place] - mean)
            after = abs(100 * (draft.loads[place] + change) / draft.strength[place] - mean)
            if after > max_load_distance and after > before:
                return False
    return True
