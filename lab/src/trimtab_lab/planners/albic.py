"""ALBIC: balance load and gather units that talk to each other, a few moves a period, in one plan."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import BalanceError
from trimtab.planning.draft import Draft, draft_of, place_new, put
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.planners.blocks import blocks_as_units
from trimtab_lab.planners.collocation_moves import gather_traffic
from trimtab_lab.planners.collocation_pairs import join_pairs
from trimtab_lab.planners.collocation_sets import Pairs, partitions, talkative_pairs, traffic_both_ways, with_foresight
from trimtab_lab.planners.gentle_levelling import level_gently

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BAND = 0.25
"""Moves that gather traffic keep nodes within this share of `max_load_distance` off the mean. Wider, and the load is no
more level than COLA's; narrower, and few moves are left to choose from."""
LEVEL = 0.8
"""Levelling stops at this share of the band: moves that level further are worth more where they gather traffic."""


def albic(
    problem: Problem,
    *,
    max_load_distance: float = 10.0,
    max_partition_load: float = 25.0,
    step: float = 5.0,
    score_factor: float = 1.5,
    pairs_per_period: int | None = None,
    seed: int = 0,
    time_limit_s: float = 2.0,
    effort: int = 20_000,
) -> Plan:
    """Bring units that talk to each other onto one node while the load stays level, within the budget of a period.

    Called every period, it raises the collocation bit by bit up to what the traffic allows. A period's plan:

    1. pairs in which a unit sends far more than the average to another are worth collocating;
    2. pairs on one node are merged into sets, which are cut into partitions of at most `max_partition_load` percent of
       a node, to move as one from now on;
    3. the load is levelled where it must be. A load distance over `max_load_distance`, or a node to be emptied, gets
       the whole budget: `milp` plans, with partitions moving as one. Otherwise nodes that are a fifth of that off the
       mean are brought back by the moves that lose the least traffic;
    4. the rest of the budget goes to the moves and exchanges, of units, partitions and whole sets, that bring most
       traffic inside a node for their price, with every node kept within a quarter of `max_load_distance`. Should the
       load distance end over `max_load_distance`, all is done again with partitions that are `step` smaller, down to
       single units.

    With `pairs_per_period` it is the paper's algorithm: that many of the pairs with most traffic are joined, where the
    less loaded of their nodes is, and then `milp` gets all that is left. It takes longer to the same collocation, and
    traffic of pairs below the score never counts.

    score_factor  how many times the average counts as much traffic
    time_limit_s  for each time that `milp` is called
    effort        the steps of its search

    >>> from scipy.sparse import csr_array
    >>> traffic = csr_array(([5.0, 5.0], ([0, 1], [3, 2])), shape=(4, 4))
    >>> problem = Problem([10.0] * 4, [0, 0, 1, 1], [100.0] * 2, traffic=traffic, operators=[0, 0, 1, 1], max_moves=2)
    >>> plan = albic(problem)
    >>> plan.collocation, plan.load_distance, len(plan.moves)
    (100.0, 0.0, 2)

    Reference: Madsen et al. (2017), section 4.3.2, Algorithm 2. Choosing moves by the traffic they gain is ours.
    """
    started = time.perf_counter()
    if step <= 0:
        raise BalanceError("plan.options", f"step is {step}", "partitions shrink by it: give points of load, over 0")
    pairs, edges = talkative_pairs(problem, score_factor), traffic_both_ways(problem)
    period = _Period(problem, pairs, edges, max_load_distance, pairs_per_period, seed, time_limit_s, effort)
    best, max_load = None, max_partition_load
    while True:
        tried = period.plan(max(max_load, 0.0))
        if best is None or tried.load_distance < best.load_distance:
            best = tried
        if best.load_distance <= max_load_distance or max_load <= 0:
            break
        max_load -= step
    return replace(best, seconds=time.perf_counter() - started)


@dataclass(frozen=True)
class _Period:
    """A problem with its traffic, looked at once and planned as often as it takes; the options are those of `albic`."""

    problem: Problem
    pairs: Pairs
    edges: csr_array
    max_load_distance: float
    pairs_per_period: int | None
    seed: int
    time_limit_s: float
    effort: int

    @cached_property
    def wishes(self) -> csr_array:
        """What moves are chosen by."""
        return with_foresight(self.edges, self.pairs)

    @property
    def band(self) -> float:
        """How many points off the mean moves may bring a node that gather traffic."""
        return BAND * self.max_load_distance

    def plan(self, max_load: float) -> Plan:
        """Plan with partitions of at most this load; with single units if that is 0."""
        draft = draft_of(self.problem)
        place_new(self.problem, draft)
        if self.pairs_per_period is None and max_load > 0:
            self._gather(draft, max_load)
        else:
            if max_load > 0 and self.pairs_per_period is not None:
                blocks = self._partitions(draft, max_load)
                join_pairs(self.problem, draft, self.pairs, blocks, count=self.pairs_per_period, seed=self.seed)
            self._solve(draft, self._partitions(draft, max_load), near_enough=0.0)
        return Plan.of(self.problem, draft.owner, "albic")

    def _gather(self, draft: Draft, max_load: float) -> None:
        """Spend the budget on a level load first, as far as it must be, and then on traffic.

        Levelling further with what is left at the end was tried: it tears units off that have to be won back.
        """
        level = LEVEL * self.band
        blocks = self._partitions(draft, max_load)
        if self._is_urgent(draft):
            self._solve(draft, blocks, near_enough=level)
        else:
            level_gently(self.problem, draft, self.wishes, blocks, level=level)
        gather_traffic(self.problem, draft, self.wishes, blocks, band=self.band)
        # Half of a long set gains nothing by moving, so whole ones are tried too. The limit on partitions is there for
        # balance, which the band sees to here.
        gather_traffic(self.problem, draft, self.wishes, self._partitions(draft, np.inf), band=self.band)
        if self.problem.load_distance(draft.owner) > self.band:
            self._solve(draft, self._partitions(draft, max_load), near_enough=level)

    def _is_urgent(self, draft: Draft) -> bool:
        """Whether nodes must be emptied, or are farther from level than they may be."""
        too_far = self.problem.load_distance(draft.owner) > self.max_load_distance
        return too_far or not bool(self.problem.open_nodes[draft.owner].all())

    def _partitions(self, draft: Draft, max_load: float) -> Int32Array:
        return partitions(self.problem, draft.owner, self.pairs, self.edges, max_load=max_load, seed=self.seed)

    def _solve(self, draft: Draft, blocks: Int32Array, *, near_enough: float) -> None:
        """Let `milp` spend what is left of the budget, moving each block as one."""
        left = _what_is_left(self.problem, draft)
        if left.max_moves == 0:
            return
        smaller, number = blocks_as_units(left, blocks)
        solved = milp(
            smaller, seed=self.seed, time_limit_s=self.time_limit_s, effort=self.effort, near_enough=near_enough
        )
        owner = solved.owner[number]
        for unit in np.flatnonzero(owner != draft.owner):
            put(draft, unit, owner[unit])


def _what_is_left(problem: Problem, draft: Draft) -> Problem:
    """The problem after the moves made: from where the units are now, with the rest of the budget.

    A unit that goes on from there is counted twice, so the whole budget is never overdrawn.
    """
    moves, cost = draft.budget
    return replace(
        problem,
        homes=draft.owner.copy(),
        max_moves=None if problem.max_moves is None else int(moves),
        max_cost=None if problem.max_cost is None else max(float(cost), 0.0),
    )
