"""Key grouping as a planner: a hash of the unit's number decides its node. It ignores loads."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import time

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import affordable, draft_of, fits, put
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Problem, no_room


def hash_placement(problem: Problem, *, seed: int = 0) -> Plan:
    """Put every unit on the node that a hash of its number selects, among the nodes that take units.

    Streaming engines do this by default (KG: hash modulo the number of engines), and the other planners are compared
    with it: loads and capacities play no part, and adding or removing one node moves nearly every unit.

    With a budget only some of the units move to their node: those on closed nodes first, then by number, skipping those
    that are too expensive. A unit whose node has no room for its side resources goes to the next open node that has if
    it must be placed (it is new, or on a closed node) and else stays.

    >>> problem = Problem(loads=[1.0] * 8, homes=[0] * 8, capacities=[10.0, 10.0, 10.0], max_moves=4)
    >>> plan = hash_placement(problem)
    >>> len(plan.moves), plan.owner.tolist() == hash_placement(problem).owner.tolist()
    (4, True)

    Time O(units). Reference: Zacheilas et al. (2016), section 4, where it is called KG.
    """
    started = time.perf_counter()
    draft = draft_of(problem)
    places = np.flatnonzero(problem.open_nodes)
    wanted = hashes(problem.units, seed) % np.uint64(len(places))
    closed = ~problem.open_nodes[problem.homes] & (problem.homes != NEW)
    # New units first: no other unit may take the room that they need.
    order = np.lexsort((np.arange(problem.units), ~closed, problem.homes != NEW))
    stuck = _go_home(draft, places, wanted.astype(np.int64), order)
    if stuck >= 0:
        raise no_room(stuck)
    return Plan.of(problem, draft.owner, "hash_placement", seconds=time.perf_counter() - started)


def hashes(count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A well mixed 64-bit number for each of 0, 1, 2 ... (splitmix64, Steele et al. 2014)."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed % 2**32) * np.uint64(2**32)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@kernel
def _go_home(draft, places, wanted, order):
    """Put units on their nodes, in this order; return the first new one without room, or -1."""
    for unit in order:
        home = draft.homes[unit]
        must = home == NEW or not draft.open_nodes[home]
        target = -1
        for step in range(places.size if must else 1):
            node = places[(wanted[unit] + step) % places.size]
            if fits(draft, unit, node):
                target = node
                break
        if target < 0:
            if home == NEW:
                return unit
        elif target != home and affordable(draft, unit, target):
            put(draft, unit, target)
    return -1
