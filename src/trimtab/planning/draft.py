"""Draft: a placement being made, with the load of every node and what is left of the budget and of the room.

The heuristics share it, so the rules of a plan (budget, closed nodes, side resources) are kept in one place: a unit
goes to a node only by `put`, after `fits` and `affordable` allowed it.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trimtab.machine_code.kernel import kernel
from trimtab.planning.problem import NEW, ROUNDING, BoolArray, Float64Array, Int32Array, Int64Array, Problem, no_room

SLACK = ROUNDING / 10
"""Sums are kept up to date here and added afresh in `Problem.faults`; this is well inside what that allows."""


class Draft(NamedTuple):
    """Columns of a placement being made. The first four change with every `put`.

    owner       (units,)        the node of each unit; NEW while it has none
    loads       (nodes,)        the load of each node in the bottleneck
    room        (nodes, sides)  what is left of each side resource
    budget      (2,)            the moves and the cost that are left; infinite without a limit
    homes       (units,)        where units started
    work        (units,)        what a unit needs of the bottleneck
    needs       (units, sides)  what it needs of the side resources
    costs       (units,)        what moving it costs
    strength    (nodes,)        what a node has of the bottleneck
    open_nodes  (nodes,)        the nodes that take units
    """

    owner: Int32Array
    loads: Float64Array
    room: Float64Array
    budget: Float64Array
    homes: Int32Array
    work: Float64Array
    needs: Float64Array
    costs: Float64Array
    strength: Float64Array
    open_nodes: BoolArray


def draft_of(problem: Problem) -> Draft:
    """Start with every unit where it lives."""
    needs, has = problem.loads[:, problem.side_resources], problem.capacities[:, problem.side_resources]
    used = np.zeros_like(has)
    placed = problem.homes != NEW
    np.add.at(used, problem.homes[placed], needs[placed])
    # A node that is already too full may keep what it has, and get back up to that.
    room = np.maximum(has, used) * (1 + SLACK) + SLACK - used
    moves = np.inf if problem.max_moves is None else float(problem.max_moves)
    cost = np.inf if problem.max_cost is None else problem.max_cost * (1 + SLACK)
    return Draft(
        owner=problem.homes.copy(),
        loads=problem.node_loads(problem.homes),
        room=np.ascontiguousarray(room),
        budget=np.array([moves, cost]),
        homes=problem.homes,
        work=problem.work,
        needs=np.ascontiguousarray(needs),
        costs=problem.move_costs,
        strength=problem.strength,
        open_nodes=problem.open_nodes,
    )


def by_load(problem: Problem, units: npt.NDArray[np.integer]) -> Int64Array:
    """These units by falling load; equal ones by number."""
    return units[np.argsort(-problem.work[units], kind="stable")].astype(np.int64)


def place_new(problem: Problem, draft: Draft) -> None:
    """Put every unit that has no node yet on the node that it leaves the least utilised, heaviest first."""
    stuck = put_on_least_filled(draft, by_load(problem, np.flatnonzero(draft.owner == NEW)))
    if stuck >= 0:
        raise no_room(stuck)


def levels_in_order(draft: Draft) -> tuple[Float64Array, Int64Array]:
    """How full nodes are, closed ones by load and open ones by utilisation, and the nodes from the fullest down.

    Here and not in a kernel: sorting and choosing take Numba seconds to compile, and NumPy nothing.
    """
    levels = draft.loads / np.where(draft.open_nodes, draft.strength, 1.0)
    return levels, np.argsort(-levels, kind="stable")


def empty_closed_nodes(problem: Problem, draft: Draft, *, lightest_first: bool = False) -> None:
    """Move units off the nodes that take none, as far as budget and room allow, each to the least utilised node."""
    there = by_load(problem, np.flatnonzero(~problem.open_nodes[draft.owner] & (draft.owner != NEW)))
    put_on_least_filled(draft, there[::-1].copy() if lightest_first else there)


@kernel
def fits(draft, unit, node):
    """Whether a node takes units and has room for this one."""
    if not draft.open_nodes[node]:
        return False
    for side in range(draft.needs.shape[1]):  # noqa: SIM110  (Numba compiles no `all` of a generator)
        if draft.needs[unit, side] > draft.room[node, side]:
            return False
    return True


@kernel
def affordable(draft, unit, node):
    """Whether the budget allows this unit there. A unit counts once, however often it is put somewhere else."""
    home = draft.homes[unit]
    if home == NEW or node == home or draft.owner[unit] != home:
        return True
    return draft.budget[0] >= 1 and draft.costs[unit] <= draft.budget[1]


@kernel
def put(draft, unit, node):
    """Give a unit to a node: the only place where a draft changes."""
    home, before = draft.homes[unit], draft.owner[unit]
    if home != NEW:
        leaves = int(node != home) - int(before != home)
        draft.budget[0] -= leaves
        draft.budget[1] -= leaves * draft.costs[unit]
    if before != NEW:
        draft.loads[before] -= draft.work[unit]
        draft.room[before] += draft.needs[unit]
    draft.loads[node] += draft.work[unit]
    draft.room[node] -= draft.needs[unit]
    draft.owner[unit] = node


@kernel
def put_all(draft, owner):
    """Bring a draft to a placement that is known to be allowed."""
    for unit in range(owner.size):
        if owner[unit] != draft.owner[unit]:
            put(draft, unit, owner[unit])


@kernel
def least_filled(draft, unit):
    """The node with room that a unit would leave the least utilised, its own one if that is as good; -1 if none."""
    best, level = -1, np.inf
    for node in range(draft.loads.size):
        if not draft.open_nodes[node]:
            continue
        after = (draft.loads[node] + draft.work[unit]) / draft.strength[node]
        if (after < level or (after == level and node == draft.homes[unit])) and fits(draft, unit, node):
            best, level = node, after
    return best


@kernel
def put_on_least_filled(draft, units):
    """Put units on their least filled nodes, in this order, as far as it can be done; the first one left, or -1."""
    stuck = -1
    for unit in units:
        node = least_filled(draft, unit) if affordable(draft, unit, NEW) else -1
        if node >= 0:
            put(draft, unit, node)
        elif stuck < 0:
            stuck = unit
    return stuck
