"""Joining pairs: the paper's own way to raise collocation, the pairs with most traffic first."""

from __future__ import annotations

import numpy as np

from trimtab.planning.draft import Draft, affordable, fits, put
from trimtab.planning.problem import Int32Array, Int64Array, Problem
from trimtab_lab.planners.collocation_sets import Pairs


def join_pairs(problem: Problem, draft: Draft, pairs: Pairs, blocks: Int32Array, *, count: int, seed: int = 0) -> int:
    """Put up to `count` separated pairs on one node each, those with most traffic first; return how many.

    A unit in a block takes the whole block with it. A unit alone goes to its partner's block; two that are alone, or in
    a block each, go to the less loaded of their nodes. Equal pairs come in a random order. Pairs that the budget or the
    room doesn't allow are skipped.

    blocks  (units,)  units of the same number >= 0 move as one; -1: alone

    >>> from trimtab.planning.draft import draft_of
    >>> problem = Problem([30.0, 10.0, 10.0], [0, 1, 0], [100.0, 100.0])
    >>> draft = draft_of(problem)
    >>> join_pairs(problem, draft, Pairs(np.array([1]), np.array([2]), np.ones(1)), np.full(3, -1), count=1)
    1
    >>> draft.owner.tolist()
    [0, 1, 1]

    Reference: Madsen et al. (2017), Algorithm 2, step 3.
    """
    order = np.lexsort((np.random.default_rng(seed).random(len(pairs.amounts)), -pairs.amounts))
    joined = 0
    for index in order:
        if joined == count:
            break
        one, other = int(pairs.senders[index]), int(pairs.receivers[index])
        if draft.owner[one] == draft.owner[other]:
            continue
        joined += _join(problem, draft, blocks, one, other)
    return joined


def _join(problem: Problem, draft: Draft, blocks: Int32Array, one: int, other: int) -> bool:
    """Put two units and their blocks on one node, if that is possible."""
    nodes = [int(draft.owner[one]), int(draft.owner[other])]
    if (blocks[one] >= 0) != (blocks[other] >= 0):
        target = nodes[0] if blocks[one] >= 0 else nodes[1]
    else:
        level = 100 * draft.loads[nodes] / np.maximum(draft.strength[nodes], 1e-300)
        target = nodes[int(np.where(problem.open_nodes[nodes], level, np.inf).argmin())]
    moving = one if target == nodes[1] else other
    members: Int64Array = np.flatnonzero(blocks == blocks[moving]) if blocks[moving] >= 0 else np.array([moving])
    before = draft.owner[members].copy()
    for done, unit in enumerate(members):
        if not fits(draft, unit, target) or not affordable(draft, unit, target):
            for back in range(done):
                put(draft, members[back], before[back])
            return False
        put(draft, unit, target)
    return True
