"""Assignment model: the placement as a mixed-integer linear program, with one binary for each unit and node.

The formulation of Madsen et al. (2017, section 4.3.1). What is printed there and differs here: (3) is asked only of the
nodes that stay, as (4) is, since load distance is defined over those; the mean isn't rounded up; and (5), which keeps d
below the mean, is left out, since a node may hold more than twice the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.planning.linear_program import TOLERANCE, LinearProgram, solve
from trimtab.planning.problem import NEW, Float64Array, Int64Array, Problem

if TYPE_CHECKING:
    from scipy.sparse import coo_array

FREE = 3
"""The columns that aren't binaries: d, d_u and d_l."""


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
    rows, lowest, highest = zip(*_rows(problem, units, nodes), strict=True)
    spread = np.inf if spread_weight else 0.0
    program = LinearProgram(
        matrix=vstack(rows, format="csr"),
        costs=np.append([1.0, -spread_weight, -spread_weight], np.zeros(len(units))),
        most=np.append([np.inf, spread, spread], np.ones(len(units))),
        whole=np.arange(len(units) + FREE) >= FREE,
        lowest=np.concatenate(lowest),
        highest=np.concatenate(highest),
    )
    values = None if start is None else np.append([problem.load_distance(start), 0.0, 0.0], nodes == start[units])
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


def _rows(
    problem: Problem, units: Int64Array, nodes: Int64Array
) -> Iterator[tuple[coo_array, Float64Array, Float64Array]]:
    """Some rows of the program at a time, and their limits."""
    from scipy.sparse import csr_array, hstack

    ones, pairs = np.ones(len(units)), np.arange(len(units))
    on_node = csr_array((ones, (nodes, pairs)), shape=(problem.nodes, len(units)))

    def rows(binaries: Any, lowest: Any, highest: Any, free: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Any:
        count = binaries.shape[0]
        matrix = hstack((csr_array(np.tile(free, (count, 1))), binaries))
        return matrix, np.broadcast_to(lowest, count), np.broadcast_to(highest, count)

    # Constraint (1): every unit is on one node.
    yield rows(csr_array((ones, (units, pairs)), shape=(problem.units, len(units))), 1.0, 1.0)
    # (3) and (4): open nodes are at most d - d_u above the mean, and d - d_l below it.
    strength = np.where(problem.open_nodes, problem.strength, np.inf)
    levels = on_node[problem.open_nodes].multiply(100.0 * problem.work[units] / strength[nodes])
    yield rows(levels, -np.inf, problem.mean, (-1.0, 1.0, 0.0))
    yield rows(levels, problem.mean, np.inf, (1.0, 0.0, -1.0))
    # (2), in moves and in cost: what is spent on units that aren't at home.
    homes = problem.homes[units]
    leaves = (homes != NEW) & (homes != nodes)
    for limit, prices in ((problem.max_moves, np.ones(problem.units)), (problem.max_cost, problem.move_costs)):
        if limit is not None:
            scale = max(1.0, float(limit))
            yield rows(csr_array([leaves * prices[units] / scale]), -np.inf, limit / scale)
    # The other resources: no node is filled past its capacity, or past what it holds now.
    for resource in problem.side_resources:
        most = np.maximum(problem.capacities[:, resource], problem.used(problem.homes, resource))
        scale = max(1.0, float(most.max()))
        yield rows(on_node.multiply(problem.loads[units, resource] / scale), -np.inf, most / scale)
