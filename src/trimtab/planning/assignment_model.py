"""Assignment model: the placement as a mixed-integer linear program, with one binary for each unit and node.

The formulation of Madsen et al. (2017, section 4.3.1). What is printed there and differs here: (3) is asked only of the
nodes that stay, as (4) is, since load distance is defined over those; the mean isn't rounded up; and (5), which keeps d
below the mean, is left out, since a node may hold more than twice the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trimtab.planning.linear_program import TOLERANCE, LinearProgram, solve
from trimtab.planning.problem import NEW, Float64Array, Int64Array, Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FREE = 3
"""The columns that aren't binaries: d, d_u and d_l."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of the program.

    values, places   (binaries,)  what each binary counts, and in which of the rows; -1: in none
    lowest, highest  (rows,)      the limits of the rows
    free             what the other columns count, in every row
    """

    values: Float64Array
    places: Int64Array
    lowest: Float64Array
    highest: Float64Array
    free: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def matrix(self) -> csr_array:
        """What all columns count."""
        from scipy.sparse import csr_array, hstack

        kept, size = np.flatnonzero(self.places >= 0), (len(self.lowest), len(self.values))
        binaries = csr_array((self.values[kept], (self.places[kept], kept)), shape=size)
        return hstack((csr_array(np.tile(self.free, (size[0], 1))), binaries), format="csr")


def solve_assignment(
    problem: Problem,
    *,
    time_limit_s: float,
    spread_weight: float = 0.0,
    start: Int64Array | None = None,
    max_nodes: int | None = None,
) -> tuple[Int64Array | None, float]:
    """Minimise d - spread_weight (d_u + d_l) over all placements within the budget.

    `start` is a placement to improve on; `max_nodes` ends the search in the same place on every machine. Returns the
    node of each unit, None if nothing was found, and a load distance that no placement is below.

    >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
    >>> solve_assignment(problem, time_limit_s=10.0)[0].tolist()
    [1, 0, 0]
    """
    from scipy.sparse import vstack

    units, nodes = _pairs(problem)
    ones = np.ones(problem.units)
    placed = Rows(np.ones(len(units)), units, ones, ones)  # constraint (1): every unit is on one node
    levels, budgets, sides = (rows(problem, units, nodes) for rows in (_levels, _budgets, _sides))
    rows = [placed, *levels, *budgets, *sides]
    spread = np.inf if spread_weight else 0.0
    program = LinearProgram(
        matrix=vstack([part.matrix for part in rows], format="csr"),
        costs=np.append([1.0, -spread_weight, -spread_weight], np.zeros(len(units))),
        most=np.append([np.inf, spread, spread], np.ones(len(units))),
        whole=np.arange(len(units) + FREE) >= FREE,
        lowest=np.concatenate([part.lowest for part in rows]),
        highest=np.concatenate([part.highest for part in rows]),
    )
    values = None
    if start is not None:
        values = np.append([problem.load_distance(start), 0.0, 0.0], nodes == start[units])
    answer = solve(program, time_limit_s=time_limit_s, max_nodes=max_nodes, start=values)
    if not len(answer.values):
        return None, 0.0
    # Rows may be off by the tolerance, and so may each binary in them. d_u and d_l only lower the objective, so that
    # what bounds it bounds d.
    largest = 100.0 * float(problem.work.sum()) / float(problem.strength[problem.open_nodes].min())
    bound = answer.bound - 4 * TOLERANCE * (1 + largest)
    owner = np.zeros(problem.units, dtype=np.int64)
    chosen = answer.values[FREE:] > 0.5
    owner[units[chosen]] = nodes[chosen]
    return owner, max(0.0, bound) if np.isfinite(bound) else 0.0


def _pairs(problem: Problem) -> tuple[Int64Array, Int64Array]:
    """The units and nodes of the binaries: a unit may go to any open node, or stay on a closed one."""
    may = np.repeat(problem.open_nodes[None, :], problem.units, axis=0)
    homed = np.flatnonzero(problem.homes != NEW)
    may[homed, problem.homes[homed]] = True
    units, nodes = np.nonzero(may)
    return units.astype(np.int64), nodes.astype(np.int64)


def _levels(problem: Problem, units: Int64Array, nodes: Int64Array) -> list[Rows]:
    """Constraints (3) and (4): open nodes are at most d - d_u above the mean, and d - d_l below it."""
    count = int(problem.open_nodes.sum())
    row_of = np.where(problem.open_nodes, np.cumsum(problem.open_nodes) - 1, -1)
    strength = np.where(problem.open_nodes, problem.strength, np.inf)
    points, rows = 100.0 * problem.work[units] / strength[nodes], row_of[nodes]
    free, mean = np.full(count, np.inf), np.full(count, problem.mean)
    return [Rows(points, rows, -free, mean, (-1.0, 1.0, 0.0)), Rows(points, rows, mean, free, (1.0, 0.0, -1.0))]


def _budgets(problem: Problem, units: Int64Array, nodes: Int64Array) -> list[Rows]:
    """Constraint (2), in moves and in cost: what is spent on units that aren't at home."""
    homes = problem.homes[units]
    leaves = (homes != NEW) & (homes != nodes)
    budgets = []
    for limit, prices in ((problem.max_moves, np.ones(problem.units)), (problem.max_cost, problem.move_costs)):
        if limit is not None:
            scale = max(1.0, float(limit))
            values, highest = leaves * prices[units] / scale, np.array([float(limit) / scale])
            budgets.append(Rows(values, np.zeros(len(units), dtype=np.int64), np.array([-np.inf]), highest))
    return budgets


def _sides(problem: Problem, units: Int64Array, nodes: Int64Array) -> list[Rows]:
    """The other resources: no node is filled past its capacity, or past what it holds now."""
    sides = []
    for resource in problem.side_resources:
        most = np.maximum(problem.capacities[:, resource], problem.used(problem.homes, resource))
        scale = max(1.0, float(most.max()))
        sides.append(Rows(problem.loads[units, resource] / scale, nodes, np.full(len(most), -np.inf), most / scale))
    return sides
