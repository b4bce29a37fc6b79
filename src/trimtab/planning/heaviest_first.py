"""Heaviest first: the plain planner, which needs nothing compiled."""

from __future__ import annotations

import time

import numpy as np

from trimtab.planning.draft import Draft, affordable, by_load, draft_of, fits, put
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, ROUNDING, Int64Array, Problem, no_room


def heaviest_first(problem: Problem) -> Plan:
    """Move the heaviest units that help from the fullest node to the emptiest one, while the budget lasts.

    New units come first, then those of nodes that are to be emptied. After that every move lowers the higher one of the
    two nodes' levels: the unit that moves is the heaviest one that leaves the node it comes from no emptier than the
    one it goes to, or else the lightest one that helps at all. A node with no such unit is left alone.

    A job's coordinator decides with it until the planner that was asked for is compiled: a thousand units take it
    a few milliseconds.

    >>> problem = Problem(loads=[5.0, 3.0, 2.0, 1.0], homes=[0, 0, 0, 1], capacities=[10.0, 10.0], max_moves=1)
    >>> heaviest_first(problem).owner.tolist()
    [0, 1, 0, 1]

    Time O(units log units), and O(units of a node) a move.
    """
    started = time.perf_counter()
    draft, nodes = draft_of(problem), np.flatnonzero(problem.open_nodes)
    heaviest = by_load(problem, np.arange(problem.units))
    for unit in heaviest[problem.homes[heaviest] == NEW].tolist():
        if not _put_on_emptiest(draft, nodes, unit):
            raise no_room(unit)
    for unit in heaviest[~problem.open_nodes[draft.owner[heaviest]]].tolist():
        if affordable.plain(draft, unit, NEW):
            _put_on_emptiest(draft, nodes, unit)
    _level(draft, nodes)
    return Plan.of(problem, draft.owner, "heaviest_first", seconds=time.perf_counter() - started)


def _put_on_emptiest(draft: Draft, nodes: Int64Array, unit: int) -> bool:
    """Put a unit on the emptiest of the nodes that it fits on; False: it fits on none."""
    for node in nodes[np.argsort(draft.loads[nodes] / draft.strength[nodes], kind="stable")].tolist():
        if fits.plain(draft, unit, node):
            put.plain(draft, unit, node)
            return True
    return False


def _level(draft: Draft, nodes: Int64Array) -> None:
    """Move units from the fullest node to the emptiest one, until none helps or the budget is spent."""
    stuck = np.zeros(len(nodes), np.bool_)
    while draft.budget[0] >= 1 and len(nodes) > 1:
        levels = draft.loads[nodes] / draft.strength[nodes]
        target = int(levels.argmin())
        giving = np.where(stuck, -np.inf, levels)
        source = int(giving.argmax())
        if source == target or giving[source] - levels[target] <= ROUNDING * max(1.0, float(levels.max())):
            return
        unit = _unit_to_move(draft, int(nodes[source]), int(nodes[target]))
        if unit is None:
            stuck[source] = True
        else:
            put.plain(draft, unit, int(nodes[target]))


def _unit_to_move(draft: Draft, source: int, target: int) -> int | None:
    """The unit that brings the two nodes nearest to each other, with the heavier one among equals."""
    strong, weak = float(draft.strength[source]), float(draft.strength[target])
    gap = float(draft.loads[source]) / strong - float(draft.loads[target]) / weak
    even = gap / (1 / strong + 1 / weak)  # the work that would make them equally full
    units = np.flatnonzero(draft.owner == source)
    work = draft.work[units]
    # Beyond this the target would be as full afterwards as the source is now.
    helps = (work > 0) & (work < gap * weak * (1 - ROUNDING)) & (draft.costs[units] <= draft.budget[1])
    units, work = units[helps], work[helps]
    heavy = work > even
    # The heaviest of those below the even share first, then the lightest of those above it.
    order = np.lexsort([np.where(heavy, work, -work), heavy])
    return next((unit for unit in units[order].tolist() if fits.plain(draft, unit, target)), None)
