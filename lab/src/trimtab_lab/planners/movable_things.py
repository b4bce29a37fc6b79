"""Movable things: units, and blocks of units that move as one, with what moving them costs, needs and changes.

Shared by the searches that optimise traffic. Compiled: importing this module imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import Draft, put
from trimtab.planning.problem import NEW, Float64Array, Int32Array, Int64Array, Problem
from trimtab_lab.planners.collocation_sets import budget_shares

if TYPE_CHECKING:
    from scipy.sparse import csr_array
NO_MARK = -1
NOTHING = 1e-12
"""A budget below this is spent."""


class Things(NamedTuple):
    """What can be moved: every unit, and after those the blocks. Thing t is `members[starts[t] : starts[t + 1]]`.

    starts    (things + 1,)
    members   (units + units in blocks,)
    block_of  (units,)  the thing that is a unit's block, or -1
    work      (things,) load in the bottleneck
    """

    starts: Int64Array
    members: Int64Array
    block_of: Int64Array
    work: Float64Array


class Links(NamedTuple):
    """The traffic of units in both directions: of unit u with `others[first[u] : first[u + 1]]`, as shares of all."""

    first: Int64Array
    others: Int64Array
    traffic: Float64Array


class Limits(NamedTuple):
    """The limits of moves.

    price  (units,)  the cost of a move, as a share of the budget
    least  (2,)      moves and cost that must be left
    mean   the utilisation all nodes should have, in percent
    band   points of utilisation that a node may end off the mean; one that is farther off may not go farther
    """

    price: Float64Array
    least: Float64Array
    mean: float
    band: float


def things_of(problem: Problem, blocks: Int32Array) -> Things:
    """The units, and the blocks: units of the same number >= 0 are one."""
    order = np.argsort(blocks, kind="stable")
    inside = order[blocks[order] >= 0]
    _, number, sizes = np.unique(blocks[inside], return_inverse=True, return_counts=True)
    block_of = np.full(problem.units, -1, dtype=np.int64)
    block_of[inside] = problem.units + number
    starts = np.concatenate((np.arange(problem.units + 1), problem.units + np.cumsum(sizes))).astype(np.int64)
    members = np.concatenate((np.arange(problem.units), inside)).astype(np.int64)
    inner = np.bincount(number, weights=problem.work[inside], minlength=len(sizes)).astype(np.float64)
    return Things(starts, members, block_of, np.concatenate((problem.work, inner)))


def links_of(draft: Draft, edges: csr_array) -> Links | None:
    """Edges as links; None if there is no traffic, or no budget for moves."""
    total = float(edges.data.sum())
    if not total > 0 or (draft.budget < NOTHING).any():
        return None
    return Links(edges.indptr.astype(np.int64), edges.indices.astype(np.int64), edges.data / total)


def limits_of(problem: Problem, band: float, keep: float = 0.0) -> Limits:
    """The limits of a problem, with a share of its budget to be kept."""
    moves = 0.0 if problem.max_moves is None else float(problem.max_moves)
    cost = 0.0 if problem.max_cost is None else problem.max_cost
    # Where moving is free, few moves are still better than many.
    price = np.maximum(budget_shares(problem), 1e-6 / max(problem.units, 1))
    return Limits(price, np.array([np.ceil(keep * moves), keep * cost]), problem.mean, band)


@kernel
def place(draft, things, thing):
    """The node of a thing; -1 if it is on none, or on several because its units have moved."""
    node = draft.owner[things.members[things.starts[thing]]]
    for slot in range(things.starts[thing] + 1, things.starts[thing + 1]):
        if draft.owner[things.members[slot]] != node:
            return -1
    return node


@kernel
def measure_traffic(draft, things, links, thing, towards, marks):
    """Write the traffic of a thing with the units on each node, without its own; `marks` is clear before and after."""
    towards[:] = 0.0
    mark(things, thing, marks, thing)
    for slot in range(things.starts[thing], things.starts[thing + 1]):
        unit = things.members[slot]
        for edge in range(links.first[unit], links.first[unit + 1]):
            other = links.others[edge]
            if marks[other] != thing and draft.owner[other] != NEW:
                towards[draft.owner[other]] += links.traffic[edge]
    mark(things, thing, marks, NO_MARK)


@kernel
def mark(things, thing, marks, value):
    """Mark the units of a thing."""
    for slot in range(things.starts[thing], things.starts[thing + 1]):
        marks[things.members[slot]] = value


@kernel
def price_of(draft, things, limits, thing, node):
    """The cost of moving a thing to a node, as a share of the budget: nearly 0 for units that have left home."""
    total = 0.0
    for slot in range(things.starts[thing], things.starts[thing + 1]):
        unit = things.members[slot]
        total += limits.price[unit] * max(leaves_home(draft, unit, node), 0.001)
    return total


@kernel
def leaves_home(draft, unit, node):
    """1 if going to a node takes a unit away from home, -1 if it brings it back, 0 if it changes nothing."""
    home = draft.homes[unit]
    return 0 if home == NEW else int(node != home) - int(draft.owner[unit] != home)


@kernel
def allowed(draft, things, limits, thing, other, home, target):
    """Whether budget, room and the band allow `thing` to go from `home` to `target`, and `other` (or nothing) back."""
    change = things.work[thing] - (things.work[other] if other >= 0 else 0.0)
    if not (_in_band(draft, limits, home, -change) and _in_band(draft, limits, target, change)):
        return False
    return payable(draft, things, limits, thing, other, home, target)


@kernel
def payable(draft, things, limits, thing, other, home, target):
    """Whether budget and room allow it, regardless of the band."""
    moves, cost = _spent(draft, things, thing, target)
    if other >= 0:
        more_moves, more_cost = _spent(draft, things, other, home)
        moves, cost = moves + more_moves, cost + more_cost
    if moves > 0 and draft.budget[0] - moves < limits.least[0]:
        return False
    if cost > 0 and draft.budget[1] - cost < limits.least[1]:
        return False
    for side in range(draft.needs.shape[1]):
        need = _need(draft, things, thing, side) - _need(draft, things, other, side)
        if need > draft.room[target, side] or (other >= 0 and -need > draft.room[home, side]):
            return False
    return True


@kernel
def off_mean(draft, limits, node, change):
    """How many points an open node's utilisation is off the mean after its load has changed by `change`; signed."""
    return 100 * (draft.loads[node] + change) / draft.strength[node] - limits.mean


@kernel
def _in_band(draft, limits, node, change):
    """Whether a node's load may change by `change`: it ends inside the band, or no farther from the mean than it is."""
    if not draft.open_nodes[node]:
        return True
    after = abs(off_mean(draft, limits, node, change))
    return after <= limits.band or after <= abs(off_mean(draft, limits, node, 0.0))


@kernel
def _spent(draft, things, thing, node):
    """The moves and the cost that sending a thing to a node takes."""
    moves, cost = 0.0, 0.0
    for slot in range(things.starts[thing], things.starts[thing + 1]):
        leaves = leaves_home(draft, things.members[slot], node)
        moves += leaves
        cost += leaves * draft.costs[things.members[slot]]
    return moves, cost


@kernel
def _need(draft, things, thing, side):
    """What a thing needs of a side resource; 0 for no thing (-1)."""
    total = 0.0
    if thing >= 0:
        for slot in range(things.starts[thing], things.starts[thing + 1]):
            total += draft.needs[things.members[slot], side]
    return total


@kernel
def move(draft, things, links, thing, node, stale):
    """Put a thing on a node; mark the things whose gains this changes as stale."""
    for slot in range(things.starts[thing], things.starts[thing + 1]):
        unit = things.members[slot]
        put(draft, unit, node)
        _touch(things, unit, stale)
        for edge in range(links.first[unit], links.first[unit + 1]):
            _touch(things, links.others[edge], stale)


@kernel
def _touch(things, unit, stale):
    stale[unit] = True
    if things.block_of[unit] >= 0:
        stale[things.block_of[unit]] = True
