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
    """Some rows of the program with their limits."""

    matrix: csr_array
    lowest: Float64Array
    highest: Float64Array


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
    rows = [_placed(problem, units), *_levels(problem, units, nodes)]
    rows += _budgets(problem, units, nodes) + _sides(problem, units, nodes)
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


def _sparse(
    values: Float64Array, rows: Int64Array, count: int, free: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> csr_array:
    """A matrix with one value in each binary's column, and the same three in each row for the others."""
    from scipy.sparse import csr_array, hstack

    columns = np.arange(len(values))
    kept = rows >= 0
    binaries = csr_array((values[kept], (rows[kept], columns[kept])), shape=(count, len(values)))
    return hstack((csr_array(np.tile(free, (count, 1))), binaries), format="csr")


def _placed(problem: Problem, units: Int64Array) -> Rows:
    """Constraint (1): every unit is on one node."""
    ones = np.ones(problem.units)
    return Rows(_sparse(np.ones(len(units)), units, problem.units), ones, ones)


def _levels(problem: Problem, units: Int64Array, nodes: Int64Array) -> list[Rows]:
    """Constraints (3) and (4): open nodes are at most d - d_u above the mean, and d - d_l below it."""
    count = int(problem.open_nodes.sum())
    row_of = np.where(problem.open_nodes, np.cumsum(problem.open_nodes) - 1, -1)
    strength = np.where(problem.open_nodes, problem.strength, np.inf)
    points, rows = 100.0 * problem.work[units] / strength[nodes], row_of[nodes]
    free, mean = np.full(count, np.inf), np.full(count, problem.mean)
    above = Rows(_sparse(points, rows, count, (-1.0, 1.0, 0.0)), -free, mean)
    below = Rows(_sparse(points, rows, count, (1.0, 0.0, -1.0)), mean, free)
    return [above, below]


def _budgets(problem: Problem, units: Int64Array, nodes: Int64Array) -> list[Rows]:
    """Constraint (2), in moves and in cost: what is spent on units that aren't at home."""
    homes = problem.homes[units]
    leaves = (homes != NEW) & (homes != nodes)
    budgets = []
    for limit, prices in ((problem.max_moves, np.ones(problem.units)), (problem.max_cost, problem.move_costs)):
        if limit is not None:
            scale = max(1.0, float(limit))
            matrix = _sparse(leaves * prices[units] / scale, np.zeros(len(units), dtype=np.int64), 1)
            budgets.append(Rows(matrix, np.array([-np.inf]), np.array([float(limit) / scale])))
    return budgets


def _sides(problem: Problem, units: Int64Array, nodes: Int64Array) -> list[Rows]:
    """The other resources: no node is filled past its capacity, or past what it holds now."""
    sides = []
    for resource in problem.side_resources:
        most = np.maximum(problem.capacities[:, resource], problem.used(problem.homes, resource))
        scale = max(1.0, float(most.max()))
        matrix = _sparse(problem.loads[units, resource] / scale, nodes, problem.nodes)
        sides.append(Rows(matrix, np.full(problem.nodes, -np.inf), most / scale))
    return sides
