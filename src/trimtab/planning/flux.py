"""Flux: pair the fullest node with the emptiest, the second with the second last, and move one unit in each pair."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import time

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import affordable, draft_of, empty_closed_nodes, fits, levels_in_order, place_new
from trimtab.planning.node_lists import NONE, move, node_lists_of, sort_again
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem

STRICTLY = 1 - 1e-9
"""A move has to narrow the gap by more than rounding does, or rounds would never end."""


def flux(problem: Problem) -> Plan:
    """Level pairs of nodes, round after round, until the budget is spent or no pair gains.

    In a round the nodes are sorted by utilisation; the first is paired with the last, the second with the second last,
    and so on. From the fuller node of each pair the biggest suitable unit goes to the emptier one: the biggest that
    decreases the variance, which is one that leaves both nodes between where the two were. Load distance therefore
    never grows, unless nodes are being emptied. Nodes that take no units count as the fullest of all, and anything on
    them is suitable. New units are placed first, on the nodes that they leave the least utilised.

    >>> problem = Problem(loads=[6.0, 4.0, 2.0, 2.0], homes=[0, 0, 0, 1], capacities=[20.0, 20.0], max_moves=1)
    >>> plan = flux(problem)
    >>> plan.moves.tolist(), plan.load_distance
    ([0], 5.0)

    Time O(nodes log nodes + moves) a round. References: Shah et al. (2003), as Madsen et al. (2017) describe it in
    section 2.2.
    """
    started = time.perf_counter()
    draft = draft_of(problem)
    place_new(problem, draft)
    _level(draft, node_lists_of(draft), *levels_in_order(draft))
    empty_closed_nodes(problem, draft)  # of units without load, and of what had no room on its pair's node
    return Plan.of(problem, draft.owner, "flux", seconds=time.perf_counter() - started)


@kernel
def _level(draft, lists, levels, order):
    # Sorted once and kept sorted from round to round, closed nodes by load and open ones by utilisation.
    closed, open_ = order[~draft.open_nodes[order]], order[draft.open_nodes[order]]
    # Gaps narrow from pair to pair. One that is too small for the smallest unit is the last worth a look.
    finest = np.inf
    for work in draft.work:
        if 0 < work < finest:
            finest = work
    finest /= draft.strength.max()
    moved = True
    while moved:
        moved = False
        sort_again(closed, levels)
        sort_again(open_, levels)
        while closed.size and lists.heaviest[closed[-1]] == NONE:
            closed = closed[:-1]
        pairs = (closed.size + open_.size) // 2
        for position in range(min(pairs, open_.size)):
            if draft.budget[0] < 1:
                return
            source = closed[position] if position < closed.size else open_[position - closed.size]
            target = open_[open_.size - 1 - position]
            if draft.open_nodes[source] and levels[source] - levels[target] < finest:
                break
            unit = _biggest_suitable(draft, lists, source, target)
            if unit != NONE:
                move(draft, lists, levels, unit, target, False)
                moved = True


@kernel
def _biggest_suitable(draft, lists, source, target):
    most = np.inf
    if draft.open_nodes[source]:
        apart = draft.loads[source] / draft.strength[source] - draft.loads[target] / draft.strength[target]
        most = STRICTLY * apart * min(draft.strength[source], draft.strength[target])
    lightest = lists.lightest[source]
    if lightest == NONE or draft.work[lightest] >= most:
        return NONE
    unit = lists.heaviest[source]
    while unit != NONE:
        if draft.work[unit] < most and fits(draft, unit, target) and affordable(draft, unit, target):
            return unit
        unit = lists.lighter[unit]
    return NONE
