"""DLB: move one key at a time off the most loaded engine until the loads are level enough."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import time
from typing import Literal, get_args

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import affordable, draft_of, empty_closed_nodes, fits, levels_in_order, place_new
from trimtab.planning.node_lists import NONE, move, node_lists_of, sort_again
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem, need

Policy = Literal["heavy", "light"]

STRICTLY = 1 - 1e-12
"""A move has to improve the score by more than rounding does, or the algorithm would never end."""


def dlb(problem: Problem, *, policy: Policy = "heavy", theta: float = 15.0) -> Plan:
    """While the relative standard deviation of utilisation is above `theta` percent, move a unit to the emptiest node.

    The unit comes from the fullest node that has one that lowers the deviation. Policy "heavy" (DLB-H) takes the
    heaviest such unit of a node, and so moves few; "light" (DLB-L) takes the lightest unit of the node if moving it
    helps, and so moves many and levels finer. The deviation never grows, unless nodes are being emptied.

    Before that, new units are placed and closed nodes are emptied as far as the budget allows. Units of no load are
    never worth a move. A node without room for any unit is set aside, and the next emptiest one receives.

    >>> problem = Problem(loads=[3.0, 1.0, 1.0, 1.0, 1.0], homes=[0, 0, 0, 0, 1], capacities=[10.0, 10.0])
    >>> dlb(problem).moves.tolist(), dlb(problem, policy="light").moves.tolist()
    ([0], [2, 3])

    Time O(nodes + units of a node) a move. Reference: Zacheilas et al. (2016), Algorithm 1. There a trial that doesn't
    help is not taken back (line 7 stands outside of the loop); the text has it as here: each trial is of one key.
    """
    need(policy in get_args(Policy), "plan.policy", f"there is no policy {policy!r}", 'it is "heavy" or "light"')
    need(theta >= 0, "plan.theta", f"theta is {theta}", "a percentage, 0 or more")
    started = time.perf_counter()
    draft, light = draft_of(problem), policy == "light"
    place_new(problem, draft)
    empty_closed_nodes(problem, draft, lightest_first=light)
    _balance(draft, node_lists_of(draft), *levels_in_order(draft), (theta / 100) ** 2, light)
    return Plan.of(problem, draft.owner, "dlb", seconds=time.perf_counter() - started)


@kernel
def _balance(draft, lists, levels, order, limit, light):
    """Algorithm 1. Scores are squared relative deviations: they order as the deviations do."""
    order = order[draft.open_nodes[order]]
    receivers = draft.open_nodes.copy()
    while draft.budget[0] >= 1 and np.any(receivers):
        sort_again(order, levels)
        spread = _spread(levels, order)
        if spread[0] <= max(limit, 1e-15):
            return
        target = order[receivers[order]][-1]
        unit = _key_to_move(draft, lists, levels, order, target, spread, light)
        if unit != NONE:
            move(draft, lists, levels, unit, target, light)
        elif draft.needs.shape[1] > 0:
            receivers[target] = False
        else:
            return


@kernel
def _spread(levels, nodes):
    """The score, and the sums it is made of: how many nodes, their levels, their squared levels."""
    total, squares = 0.0, 0.0
    for node in nodes:
        total += levels[node]
        squares += levels[node] ** 2
    return (nodes.size * squares / total**2 - 1 if total > 0 else 0.0), float(nodes.size), total, squares


@kernel
def _key_to_move(draft, lists, levels, order, target, spread, light):
    """The key to take: of the first node that has one to give, from the fullest down to the target; or NONE."""
    for source in order:
        if levels[source] <= levels[target]:
            break
        unit = _select_key(draft, lists, levels, source, target, spread, light)
        if unit != NONE:
            return unit
    return NONE


@kernel
def _select_key(draft, lists, levels, source, target, spread, light):
    """The key to take from a node, or NONE. The keys that lower the score are those below some weight."""
    unit = lists.lightest[source]
    # If the lightest one doesn't help, no other does.
    if unit == NONE or not _helps(draft, levels, unit, source, target, spread):
        return NONE
    if not light:
        unit = lists.heaviest[source]
    while unit != NONE:
        if fits(draft, unit, target) and affordable(draft, unit, target):
            if _helps(draft, levels, unit, source, target, spread):
                return unit
            if light:
                return NONE
        unit = lists.heavier[unit] if light else lists.lighter[unit]
    return NONE


@kernel
def _helps(draft, levels, unit, source, target, spread):
    """Whether a move lowers the score."""
    score, nodes, total, squares = spread
    less, more = draft.work[unit] / draft.strength[source], draft.work[unit] / draft.strength[target]
    new_total = total - less + more
    new_squares = squares - less * (2 * levels[source] - less) + more * (2 * levels[target] + more)
    return nodes * new_squares / new_total**2 - 1 < score * STRICTLY
