"""Gentle levelling: level nodes that are too full or too empty by the moves that lose the least traffic.

For the small differences of a period. It moves one thing at a time and stops where that doesn't help: use `milp` for a
cluster that is far from level. Compiled: importing this module imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import Draft
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.planners.movable_things import (
    NO_MARK,
    limits_of,
    links_of,
    measure_traffic,
    move,
    off_mean,
    payable,
    place,
    price_of,
    things_of,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CLEARLY = 0.9
"""A move has to bring a node closer to the mean by at least a tenth."""


def level_gently(problem: Problem, draft: Draft, edges: csr_array, blocks: Int32Array, *, level: float) -> int:
    """Bring nodes within `level` points of the mean utilisation, the farthest first; count the moves of things.

    Each step brings both of its nodes within `level`, or clearly closer than the farthest one was. Of all such moves it
    makes the one that gains most traffic, or loses least; the cost of a move counts as much as an average unit's
    traffic. A node that no move improves is left as it is. The load distance never grows.

    edges   (units, units)  traffic, both ways
    blocks  (units,)        units of the same number >= 0 are on one node and may move as one; -1: alone

    >>> from scipy.sparse import csr_array
    >>> from trimtab.planning.draft import draft_of
    >>> problem = Problem([10.0] * 4, [0, 0, 0, 1], [100.0, 100.0])
    >>> edges = csr_array(([1.0] * 2, ([0, 1], [1, 0])), shape=(4, 4))
    >>> draft = draft_of(problem)
    >>> level_gently(problem, draft, edges, np.full(4, -1, dtype=np.int32), level=5.0)
    1
    >>> draft.owner.tolist()
    [0, 0, 1, 1]
    """
    links = links_of(draft, edges)
    if links is None:
        return 0
    limits = limits_of(problem, level)
    # Shares of all traffic: each unit has 1 / units of it on average.
    worth = 1 / problem.units / float(limits.price.mean())
    return int(_settle(draft, things_of(problem, blocks), links, limits, worth))


@kernel
def _settle(draft, things, links, limits, worth):
    """Move one thing after another until all nodes are level, or no move improves the others."""
    count, nodes = things.work.size, draft.loads.size
    towards, marks = np.zeros(nodes), np.full(draft.owner.size, NO_MARK, dtype=np.int64)
    stale, stuck = np.zeros(count, dtype=np.bool_), ~draft.open_nodes
    steps = 0
    while draft.budget[0] >= 1:
        node = _farthest(draft, limits, stuck)
        if node < 0:
            break
        full = off_mean(draft, limits, node, 0.0) > 0
        best, chosen, goal = -np.inf, -1, -1
        for thing in range(count):
            home = place(draft, things, thing)
            if home < 0 or things.work[thing] <= 0 or (home == node) != full:
                continue
            measure_traffic(draft, things, links, thing, towards, marks)
            for target in range(nodes) if full else range(node, node + 1):
                if not _helps(draft, things, limits, thing, home, target, node):
                    continue
                spent = worth * price_of(draft, things, limits, thing, target)
                gain = towards[target] - towards[home] - spent
                if gain > best and payable(draft, things, limits, thing, -1, home, target):
                    best, chosen, goal = gain, thing, target
        if chosen < 0:
            stuck[node] = True
            continue
        move(draft, things, links, chosen, goal, stale)
        steps += 1
    return steps


@kernel
def _farthest(draft, limits, stuck):
    """The open node farthest outside the band that isn't stuck; -1 if none is."""
    found, most = -1, limits.band
    for node in range(draft.loads.size):
        if not stuck[node] and abs(off_mean(draft, limits, node, 0.0)) > most:
            found, most = node, abs(off_mean(draft, limits, node, 0.0))
    return found


@kernel
def _helps(draft, things, limits, thing, home, target, node):
    """Whether a move leaves both ends inside the band, or clearly closer to the mean than `node`, one of them, was."""
    if home == target or not draft.open_nodes[target]:
        return False
    most = max(limits.band, CLEARLY * abs(off_mean(draft, limits, node, 0.0)))
    if draft.open_nodes[home] and abs(off_mean(draft, limits, home, -things.work[thing])) > most:
        return False
    return abs(off_mean(draft, limits, target, things.work[thing])) <= most
