from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import BalanceError
from trimtab_lab.planners.subset_sum import subsets_by_state


def by_enumeration(loads: list[int], states: list[int], low: int, high: int) -> dict[int, int]:
    """The least state for each sum in the interval."""
    least: dict[int, int] = {}
    useful = [unit for unit, load in enumerate(loads) if load > 0]
    for size in range(len(useful) + 1):
        for chosen in combinations(useful, size):
            total = sum(loads[unit] for unit in chosen)
            if low <= total <= high:
                state = sum(states[unit] for unit in chosen)
                least[total] = min(state, least.get(total, state))
    return least


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=9), st.integers(0, 25), st.integers(0, 12))
def test_it_agrees_with_trying_every_subset(units: list[tuple[int, int]], low: int, width: int) -> None:
    loads, states = [load for load, _ in units], [state for _, state in units]
    found = list(subsets_by_state(np.array(loads, dtype=np.int64), states, low, low + width))
    sums = [sum(loads[unit] for unit in subset) for subset in found]
    costs = [sum(states[unit] for unit in subset) for subset in found]
    assert dict(zip(sums, costs, strict=True)) == by_enumeration(loads, states, low, low + width)
    assert costs == sorted(costs)
    assert all(len(set(subset.tolist())) == len(subset) for subset in found)


def test_the_least_state_comes_first_even_if_it_takes_more_units() -> None:
    first = next(subsets_by_state([10, 4, 3, 3], [100.0, 1.0, 1.0, 1.0], 10, 10))
    assert first.tolist() == [1, 2, 3]


def test_an_interval_that_no_sum_reaches_yields_nothing() -> None:
    assert list(subsets_by_state([4, 8], [1.0, 1.0], 5, 7)) == []
    assert list(subsets_by_state([4, 8], [1.0, 1.0], 13, 99)) == []
    assert list(subsets_by_state([4, 8], [1.0, 1.0], 7, 5)) == []


def test_no_units_have_the_empty_subset_only() -> None:
    assert [subset.tolist() for subset in subsets_by_state(np.zeros(0, dtype=np.int64), [], 0, 5)] == [[]]


def test_loads_must_be_whole_and_not_negative() -> None:
    for loads in ([0.5, 1.0], [-1, 2]):
        with pytest.raises(BalanceError) as caught:
            list(subsets_by_state(loads, [1.0, 1.0], 0, 3))
        assert caught.value.code == "plan.loads"
    with pytest.raises(BalanceError) as caught:
        list(subsets_by_state([1], [1.0, 1.0], 0, 3))
    assert caught.value.code == "plan.shape"
