"""Problems for the tests of planners: made by Hypothesis, and small enough to try every placement."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from trimtab.planning.board import Board, board_of
from trimtab.planning.draft import draft_of, place_new
from trimtab.planning.problem import NEW, Problem

MOST_NODES, MOST_UNITS = 4, 7


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    most_nodes: int = MOST_NODES,
    most_units: int = MOST_UNITS,
    sides: bool = True,
    closed: bool = True,
    new_units: bool = True,
    budget: bool = True,
    distinct_loads: bool = False,
) -> Problem:
    """A problem with a few of everything. One open node has room for all side resources, so new units always fit."""
    nodes = draw(st.integers(1, most_nodes))
    units = draw(st.integers(0, most_units))
    resources = draw(st.integers(1, 2)) if sides else 1
    if distinct_loads:
        numbers = draw(st.lists(st.integers(1, 100_000), min_size=units, max_size=units, unique=True))
        loads = np.array(numbers, dtype=float).reshape(units, 1) / 1000
        resources = 1
    else:
        count = units * resources
        numbers = draw(st.lists(st.integers(0, 12_000), min_size=count, max_size=count))
        # Half of them are whole, so that there are equal ones, and sums that are equal.
        loads = np.array([n // 1000 if n % 2 else n / 1000 for n in numbers], dtype=float).reshape(units, resources)
    has = st.sampled_from([0.0, 4.0, 10.0, 10.0, 10.0, 25.0] if closed else [4.0, 10.0, 10.0, 10.0, 25.0])
    capacities = np.array([[draw(has) for _ in range(resources)] for _ in range(nodes)])
    draining = np.array([closed and draw(st.integers(0, 3)) == 0 for _ in range(nodes)])
    roomy = draw(st.integers(0, nodes - 1))
    draining[roomy] = False
    capacities[roomy] = np.maximum(capacities[roomy], np.maximum(loads.sum(axis=0), 1.0))
    homes = [draw(st.integers(NEW if new_units else 0, nodes - 1)) for _ in range(units)]
    costs = [float(draw(st.integers(0, 5))) for _ in range(units)]
    traffic = _traffic(draw, units) if draw(st.booleans()) else None
    return Problem(
        loads,
        homes,
        capacities,
        draining=draining,
        state_bytes=np.ones(units),
        move_costs=costs,
        traffic=traffic,
        operators=[unit % 2 for unit in range(units)],
        max_moves=draw(st.one_of(st.none(), st.integers(0, units))) if budget else None,
        max_cost=draw(st.one_of(st.none(), st.integers(0, 15).map(float))) if budget else None,
    )


def _traffic(draw: st.DrawFn, units: int) -> csr_array:
    talks = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9)), max_size=8))
    pairs = [(a % units, b % units, float(c)) for a, b, c in talks if units and a % units != b % units]
    ends = [a for a, *_ in pairs], [b for _, b, _ in pairs]
    return csr_array(([c for *_, c in pairs], ends), shape=(units, units))


def started(problem: Problem, *, seed: int = 0) -> tuple[Problem, Board]:
    """The problem with its units from the lightest on, and the board that a search begins with."""
    rising = problem.of_units(np.argsort(problem.work, kind="stable"))
    draft = draft_of(rising)
    place_new(rising, draft)
    return rising, board_of(rising, draft.owner, draft.room, seed=seed)
