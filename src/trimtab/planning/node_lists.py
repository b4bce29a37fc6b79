"""NodeLists: the units of each node from heavy to light, in linked lists that compiled code can walk and change.

Finding the heaviest or the lightest unit of a node takes no search, and a unit changes lists in a few steps. Units of
no load are in no list: moving them levels nothing.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import Draft, put
from trimtab.planning.problem import Int64Array

NONE = -1
"""No unit: the end of a list."""
NO_LOAD = 1e-9
"""A smaller share of all load counts as none: averages that fade leave it, and rounding hides what moving it levels."""


class NodeLists(NamedTuple):
    """One doubly linked list per node, over arrays.

    heaviest, lightest  (nodes,)  both ends of each node's list
    lighter, heavier    (units,)  the neighbours of a unit in its list

    Of equal units the one nearer to the end it came in by is the newer one.
    """

    heaviest: Int64Array
    lightest: Int64Array
    lighter: Int64Array
    heavier: Int64Array


def node_lists_of(draft: Draft) -> NodeLists:
    """The lists of a draft in which every unit has a node."""
    units, nodes = len(draft.owner), len(draft.loads)
    order = np.argsort(-draft.work, kind="stable")
    lists = NodeLists(*(np.full(size, NONE, dtype=np.int64) for size in (nodes, nodes, units, units)))
    _fill(lists, draft.owner, order[draft.work[order] > NO_LOAD * draft.work.sum()])
    return lists


@kernel
def move(draft, lists, levels, unit, target, from_light_end):
    """Move a unit to another node, and sort it into that one's list, looking for its place from one end."""
    source = np.int64(draft.owner[unit])
    put(draft, unit, target)
    _join(lists, source, lists.heavier[unit], lists.lighter[unit], lists.lighter[unit], lists.heavier[unit])
    weights = draft.work
    if from_light_end:
        above = lists.lightest[target]
        while above != NONE and weights[above] < weights[unit]:
            above = lists.heavier[above]
        below = lists.lighter[above] if above != NONE else lists.heaviest[target]
    else:
        below = lists.heaviest[target]
        while below != NONE and weights[below] > weights[unit]:
            below = lists.lighter[below]
        above = lists.heavier[below] if below != NONE else lists.lightest[target]
    _link(lists, unit, target, above, below)
    for node in (source, target):
        if draft.open_nodes[node]:
            levels[node] = draft.loads[node] / draft.strength[node]
        else:  # exactly 0 when it is empty, whatever rounding has left
            levels[node] = draft.loads[node] if lists.heaviest[node] != NONE else 0.0


@kernel
def sort_again(nodes, levels):
    """Sort nodes by falling level, equal ones by number: by insertion, as they are nearly sorted from the last time."""
    for i in range(1, nodes.size):
        node, j = nodes[i], i
        level = levels[node]
        while j > 0 and (levels[nodes[j - 1]] < level or (levels[nodes[j - 1]] == level and nodes[j - 1] > node)):
            nodes[j] = nodes[j - 1]
            j -= 1
        nodes[j] = node


@kernel
def _link(lists, unit, node, above, below):
    lists.heavier[unit], lists.lighter[unit] = above, below
    _join(lists, node, above, below, unit, unit)


@kernel
def _join(lists, node, above, below, next_lighter, next_heavier):
    """Set what comes after `above` and before `below`; where there is none, the node's list begins or ends there."""
    if above != NONE:
        lists.lighter[above] = next_lighter
    else:
        lists.heaviest[node] = next_lighter
    if below != NONE:
        lists.heavier[below] = next_heavier
    else:
        lists.lightest[node] = next_heavier


@kernel
def _fill(lists, owner, order):
    for unit in order:
        node = owner[unit]
        _link(lists, unit, node, lists.lightest[node], NONE)
