"""The tournament: which of many workers is the least loaded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab_lab.routers.least_loaded import raised, tournament


@given(
    fills=st.lists(st.integers(0, 5), min_size=1, max_size=20),
    raises=st.lists(st.tuples(st.integers(0, 19), st.integers(1, 3)), max_size=60),
)
def test_the_winner_is_the_first_of_the_least(fills: list[int], raises: list[tuple[int, int]]) -> None:
    padded, winners = tournament(np.array(fills, np.float64))
    for worker, by in raises:
        if worker < len(fills):
            padded[worker] += by
            raised(winners, padded, worker)
        assert winners[1] == np.argmin(padded[: len(fills)])
