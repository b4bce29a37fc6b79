"""Blocks: units of one node that move as one, for planners that know single units only."""

from __future__ import annotations

import numpy as np

from trimtab.planning.problem import Float64Array, Int32Array, Int64Array, Problem


def blocks_as_units(problem: Problem, blocks: Int32Array) -> tuple[Problem, Int64Array]:
    """The problem in which each block is one unit, and the number that each unit's block has there.

    blocks  (units,)  units with the same label of 0 or more live on one node and move as one; -1 is a unit alone

    A block costs as many moves as it has units, so the budget becomes one of cost. If moves and cost are both limited,
    a block costs the larger of its two shares: both limits are kept, and may not be used up.

    >>> problem = Problem(loads=[3.0, 1.0, 2.0], homes=[0, 1, 0], capacities=[10.0, 10.0], max_moves=2)
    >>> smaller, number = blocks_as_units(problem, np.array([7, -1, 7]))
    >>> smaller.work.tolist(), smaller.move_costs.tolist(), smaller.max_cost, number.tolist()
    ([5.0, 1.0], [2.0, 1.0], 2.0, [0, 1, 0])
    """
    labels = np.where(blocks < 0, blocks.max(initial=0) + 1 + np.arange(problem.units), blocks)
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    if len(first) == problem.units:
        return problem, np.arange(problem.units)
    assert np.array_equal(problem.homes[first][number], problem.homes), "a block is on one node"
    loads = np.zeros((len(first), problem.loads.shape[1]))
    np.add.at(loads, number, problem.loads)
    sizes: Float64Array = np.bincount(number).astype(np.float64)
    costs: Float64Array = np.bincount(number, weights=problem.move_costs).astype(np.float64)
    max_moves, max_cost = problem.max_moves, problem.max_cost
    if max_moves is not None and max_cost is not None:
        costs, max_cost = np.maximum(_shares(sizes, max_moves), _shares(costs, max_cost)), 1.0
    elif max_moves is not None:
        costs, max_cost = sizes, float(max_moves)
    homes, has = problem.homes[first], problem.capacities
    return Problem(loads, homes, has, draining=problem.draining, move_costs=costs, max_cost=max_cost), number


def _shares(amounts: Float64Array, limit: float) -> Float64Array:
    """Amounts as shares of a limit; above 1 where there is an amount and nothing is allowed."""
    return np.divide(amounts, limit, out=np.where(amounts > 0, 2.0, 0.0), where=limit > 0)
