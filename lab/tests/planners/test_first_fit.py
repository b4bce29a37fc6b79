from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.errors import BalanceError
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.planners.first_fit import first_fit, without_room


def first_fit_plain(problem: Problem, threshold: float) -> tuple[list[int], list[int]]:
    """The definition, unit by unit: owners, and the units that found no room."""
    owner, misfits = problem.homes.tolist(), []
    main = problem.bottleneck

    def left(node: int, resource: int) -> float:
        used = sum(problem.loads[unit, resource] for unit, home in enumerate(owner) if home == node)
        return float(problem.capacities[node, resource] * (threshold if resource == main else 1.0) - used)

    def fits(unit: int, node: int, resources: list[int]) -> bool:
        return all(problem.loads[unit, r] <= 0 or problem.loads[unit, r] <= left(node, r) + 1e-10 for r in resources)

    used = [node for node in np.flatnonzero(problem.open_nodes).tolist() if node in owner]
    order = used + [node for node in np.flatnonzero(problem.open_nodes).tolist() if node not in used]
    every = list(range(problem.loads.shape[1]))
    for unit in np.flatnonzero(problem.homes == NEW).tolist():
        room = [node for node in order if fits(unit, node, every)]
        if room:
            owner[unit] = room[0]
        else:
            misfits.append(unit)
    for unit in misfits:
        beside = [node for node in sorted(order) if fits(unit, node, [r for r in every if r != main])]
        owner[unit] = max(beside, key=lambda node: left(node, main) / problem.strength[node])
    return owner, misfits


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    nodes, units = draw(st.integers(1, 5)), draw(st.integers(0, 12))
    # Loads of eighths have exact sums, so both ways of adding see the same ties.
    eighths = st.integers(0, 4).map(lambda count: count / 8)
    loads = [[draw(eighths), draw(eighths) / 16] for _ in range(units)]
    return Problem(
        loads=np.array(loads).reshape(units, 2),
        homes=[draw(st.integers(NEW, nodes - 1)) for _ in range(units)],
        capacities=[[draw(st.sampled_from([1.0, 1.0, 2.0])), 1.0] for _ in range(nodes)],
        draining=[False] + [draw(st.booleans()) for _ in range(nodes - 1)],
    )


@settings(deadline=None)
@given(problems(), st.sampled_from([0.5, 0.75, 1.0]))
def test_it_does_what_the_definition_says(problem: Problem, threshold: float) -> None:
    plan = first_fit(problem, threshold=threshold)
    owner, misfits = first_fit_plain(problem, threshold)
    assert plan.owner.tolist() == owner
    assert without_room(problem, threshold=threshold).tolist() == misfits
    assert problem.faults(plan.owner) == []
    assert len(plan.moves) == 0


def test_an_empty_node_is_opened_only_if_no_used_one_has_room() -> None:
    problem = Problem(loads=[0.3, 0.3, 0.6], homes=[2, NEW, NEW], capacities=[1.0, 1.0, 1.0])
    assert first_fit(problem, threshold=0.9).owner.tolist() == [2, 2, 0]


def test_heaviest_first_packs_what_the_given_order_can_not() -> None:
    problem = Problem(loads=[0.3, 0.3, 0.7, 0.7], homes=[NEW] * 4, capacities=[1.0] * 3)
    assert len(set(first_fit(problem).owner.tolist())) == 3
    assert len(set(first_fit(problem, decreasing=True).owner.tolist())) == 2


def test_a_node_short_of_memory_or_draining_is_left_out() -> None:
    loads = [[0.5, 10.0], [0.5, 90.0], [0.5, 0.0]]
    capacities = [[9.0, 50.0], [9.0, 100.0], [9.0, 1000.0]]
    problem = Problem(loads=loads, homes=[NEW] * 3, capacities=capacities, draining=[False, False, True])
    problem_cpu = Problem(loads=[[9.0, 10.0], [8.0, 90.0], [9.0, 0.0]], homes=[NEW] * 3, capacities=capacities)
    assert problem_cpu.bottleneck == 0
    assert first_fit(problem_cpu).owner.tolist() == [0, 1, 2]
    assert 2 not in first_fit(problem).owner.tolist()


def test_loads_that_fill_a_node_exactly_fit_in_spite_of_rounding() -> None:
    problem = Problem(loads=[0.1] * 9, homes=[NEW] * 9, capacities=[1.0, 1.0])
    assert first_fit(problem, threshold=0.9).owner.tolist() == [0] * 9


def test_what_fits_nowhere_goes_to_the_least_utilised_node_and_takes_no_room_from_what_fits() -> None:
    problem = Problem(loads=[0.5, 0.2, 0.7, 0.3], homes=[0, 1, NEW, NEW], capacities=[1.0, 1.0])
    assert without_room(problem, threshold=0.8).tolist() == [2]
    assert first_fit(problem, threshold=0.8).owner.tolist() == [0, 1, 1, 0]


def test_memory_that_is_nowhere_is_an_error() -> None:
    problem = Problem(loads=[[0.9, 5.0]] * 2, homes=[NEW, NEW], capacities=[[1.0, 9.0]])
    with pytest.raises(BalanceError) as caught:
        first_fit(problem)
    assert caught.value.code == "plan.room"


def test_a_threshold_must_be_above_zero() -> None:
    with pytest.raises(BalanceError) as caught:
        first_fit(Problem(loads=[1.0], homes=[NEW], capacities=[1.0]), threshold=0.0)
    assert caught.value.code == "plan.threshold"


def test_nothing_to_place_is_fine() -> None:
    assert first_fit(Problem(loads=[], homes=[], capacities=[1.0])).owner.tolist() == []
    assert first_fit(Problem(loads=[0.0], homes=[NEW], capacities=[1.0])).owner.tolist() == [0]
