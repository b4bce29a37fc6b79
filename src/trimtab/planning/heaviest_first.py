"""Heaviest first: the plain planner, which needs nothing compiled."""

from __future__ import annotations

import time

import numpy as np

from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, ROUNDING, Float64Array, Int32Array, Problem, no_room


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
    draft = _Draft(problem)
    heaviest = np.argsort(-problem.work, kind="stable")
    for unit in heaviest[problem.homes[heaviest] == NEW].tolist():
        draft.put_on_emptiest(unit)
    at_home = heaviest[problem.homes[heaviest] != NEW]
    for unit in at_home[~problem.open_nodes[problem.homes[at_home]]].tolist():
        if draft.can_pay(unit):
            draft.put_on_emptiest(unit)
    _level(draft)
    return Plan.of(problem, draft.owner, "heaviest_first", seconds=time.perf_counter() - started)


class _Draft:
    """A placement in the making: where units are, how full nodes are, and what is left of the budget."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.owner: Int32Array = problem.homes.copy()
        self.loads: Float64Array = problem.node_loads(problem.homes)
        self.used = np.zeros(problem.capacities.shape)
        placed = problem.homes != NEW
        np.add.at(self.used, problem.homes[placed], problem.loads[placed])
        self.moves = problem.units if problem.max_moves is None else problem.max_moves
        self.cost = np.inf if problem.max_cost is None else problem.max_cost * (1 + ROUNDING)
        self.open = np.flatnonzero(problem.open_nodes)
        self.others = [r for r in range(problem.loads.shape[1]) if r != problem.bottleneck]

    def levels(self) -> Float64Array:
        """How full each open node is, as a share of what it has."""
        found: Float64Array = self.loads[self.open] / self.problem.strength[self.open]
        return found

    def can_pay(self, unit: int) -> bool:
        """Whether the budget allows that the unit leaves its home."""
        return self.moves >= 1 and float(self.problem.move_costs[unit]) <= self.cost

    def fits(self, unit: int, node: int) -> bool:
        """Whether the node has what the unit needs besides the bottleneck."""
        problem, others = self.problem, self.others
        needs = self.used[node, others] + problem.loads[unit, others]
        return bool(np.all(needs <= problem.capacities[node, others]))

    def put_on_emptiest(self, unit: int) -> None:
        """Put the unit on the emptiest open node that it fits on.

        One that fits nowhere stays where it is. Raises BalanceError `plan.room` if it has no home to stay at.
        """
        order = self.open[np.argsort(self.levels(), kind="stable")].tolist()
        node = next((each for each in order if self.fits(unit, each)), None)
        if node is not None:
            self.put(unit, node)
        elif self.owner[unit] == NEW:
            raise no_room(unit)

    def put(self, unit: int, node: int) -> None:
        """Change the unit's node, and pay for it."""
        problem, before = self.problem, int(self.owner[unit])
        if before != NEW:
            self.loads[before] -= problem.work[unit]
            self.used[before] -= problem.loads[unit]
            if before == problem.homes[unit]:
                self.moves, self.cost = self.moves - 1, self.cost - float(problem.move_costs[unit])
        self.owner[unit] = node
        self.loads[node] += problem.work[unit]
        self.used[node] += problem.loads[unit]


def _level(draft: _Draft) -> None:
    """Move units from the fullest node to the emptiest one, until none helps or the budget is spent."""
    stuck = np.zeros(len(draft.open), np.bool_)
    while draft.moves >= 1 and len(draft.open) > 1:
        levels = draft.levels()
        target = int(levels.argmin())
        giving = np.where(stuck, -np.inf, levels)
        source = int(giving.argmax())
        if source == target or giving[source] - levels[target] <= ROUNDING * max(1.0, float(levels.max())):
            return
        unit = _unit_to_move(draft, int(draft.open[source]), int(draft.open[target]))
        if unit is None:
            stuck[source] = True
        else:
            draft.put(unit, int(draft.open[target]))


def _unit_to_move(draft: _Draft, source: int, target: int) -> int | None:
    """The unit that brings the two nodes nearest to each other, with the heavier one among equals."""
    problem = draft.problem
    strong, weak = float(problem.strength[source]), float(problem.strength[target])
    gap = float(draft.loads[source]) / strong - float(draft.loads[target]) / weak
    even = gap / (1 / strong + 1 / weak)  # the work that would make them equally full
    units = np.flatnonzero(draft.owner == source)
    work = problem.work[units]
    # Beyond this the target would be as full afterwards as the source is now.
    helps = (work > 0) & (work < gap * weak * (1 - ROUNDING)) & (problem.move_costs[units] <= draft.cost)
    units, work = units[helps], work[helps]
    if not len(units):
        return None
    heavy = work > even
    # The heaviest of those below the even share first, then the lightest of those above it.
    order = np.lexsort([np.where(heavy, work, -work), heavy])
    if draft.others:
        return next((int(unit) for unit in units[order] if draft.fits(int(unit), target)), None)
    return int(units[order[0]])
