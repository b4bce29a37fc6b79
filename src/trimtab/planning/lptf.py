"""LPTF: longest processing time first, from scratch."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import time

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import Draft, affordable, by_load, draft_of, fits, place_new, put, put_on_least_filled
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Int64Array, Problem

STILL_USEFUL = 0.5
"""A move is made if it still gains this share of what it promised when the moves were last ranked."""
PATIENT_ROUNDS = 20
ANY_USE = 1e-9
"""After PATIENT_ROUNDS rankings a move is made if it still gains the share ANY_USE: more than rounding."""


def lptf(problem: Problem) -> Plan:
    """Place all units anew: the heaviest first, each on the node that it leaves the least utilised.

    The most utilised of n equal nodes has at most 4/3 - 1/(3n) times the load that it must have, and mostly far less.
    Where units live now doesn't count, except in exact ties, so most of them move: in the paper 76 %.

    If the budget doesn't allow all of these moves, those are made that are the most useful: off closed nodes first,
    then by how much they reduce the variance of utilisation (per cost, if cost is what limits), as long as they do.

    >>> problem = Problem(loads=[5.0, 4.0, 3.0, 3.0, 3.0], homes=[0] * 5, capacities=[10.0, 10.0])
    >>> lptf(problem).owner.tolist()
    [0, 1, 1, 0, 1]

    Time O(units * nodes), compiled. References: Graham (1969); Rivetti et al. (2015) as Zacheilas et al. (2016) use it.
    """
    started = time.perf_counter()
    draft, wanted = draft_of(problem), _from_scratch(problem)
    if bool((wanted != NEW).all()) and not problem.faults(wanted):
        return Plan.of(problem, wanted, "lptf", seconds=time.perf_counter() - started)
    new = by_load(problem, np.flatnonzero((problem.homes == NEW) & (wanted != NEW)))
    _put_as_wanted(draft, new, wanted, np.full(len(new), -np.inf))
    place_new(problem, draft)
    _most_useful_moves(problem, draft, np.where(wanted == NEW, draft.owner, wanted))
    return Plan.of(problem, draft.owner, "lptf", seconds=time.perf_counter() - started)


def _from_scratch(problem: Problem) -> Int64Array:
    """Where every unit would go if all were new; NEW for units that found no room."""
    draft = draft_of(problem)
    placed = problem.homes != NEW
    np.add.at(draft.room, problem.homes[placed], draft.needs[placed])
    draft.owner[:], draft.loads[:], draft.budget[:] = NEW, 0.0, np.inf
    put_on_least_filled(draft, by_load(problem, np.arange(problem.units)))
    return draft.owner.astype(np.int64)


def _most_useful_moves(problem: Problem, draft: Draft, wanted: Int64Array) -> None:
    """Rank the moves by what they gain, make those that still gain about that when their turn comes, rank again."""
    cost_limits = problem.max_moves is None and problem.max_cost is not None
    for turn in range(2 * PATIENT_ROUNDS):
        waiting = np.flatnonzero(wanted != draft.owner)
        gains = _gains(draft, waiting, wanted)
        worth = gains / np.maximum(draft.costs[waiting], 1e-300) if cost_limits else gains
        useful = gains > 0
        waiting, gains, worth = waiting[useful], gains[useful], worth[useful]
        # Gains off closed nodes are infinite: there the heavier units go first.
        order = np.lexsort((waiting, -draft.work[waiting], -worth))
        least = (STILL_USEFUL if turn < PATIENT_ROUNDS else ANY_USE) * gains[order]
        if draft.budget[0] < 1 or not _put_as_wanted(draft, waiting[order], wanted, least):
            return


@kernel
def _gain(draft, unit, target):
    """By how much a move reduces the sum over nodes of load squared over capacity; infinite off closed nodes."""
    source = draft.owner[unit]
    if source == NEW or not draft.open_nodes[source]:
        return np.inf
    work, from_, to = draft.work[unit], draft.strength[source], draft.strength[target]
    apart = draft.loads[source] / from_ - draft.loads[target] / to
    return work * (2 * apart - work * (1 / from_ + 1 / to))


@kernel
def _gains(draft, units, wanted):
    gains = np.empty(units.size)
    for position in range(units.size):
        gains[position] = _gain(draft, units[position], wanted[units[position]])
    return gains


@kernel
def _put_as_wanted(draft, units, wanted, least_gains):
    """Put units on their wanted nodes, in this order, if they gain at least `least_gains`; how many were put."""
    count = 0
    for position in range(units.size):
        unit = units[position]
        target = wanted[unit]
        if _gain(draft, unit, target) < least_gains[position] or not fits(draft, unit, target):
            continue
        if affordable(draft, unit, target):
            put(draft, unit, target)
            count += 1
    return count
