from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_are

from trimtab.control.riccati import solve_riccati


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 999), st.floats(0.1, 1.3))
def test_it_is_what_scipy_finds(states: int, actions: int, seed: int, size: float) -> None:
    dice = np.random.default_rng(seed)
    system = dice.normal(size=(states, states))
    system *= size / np.abs(np.linalg.eigvals(system)).max()
    entry = dice.normal(size=(states, actions))
    weights, costs = np.diag(dice.uniform(0.1, 1, states)), np.diag(dice.uniform(0.1, 10, actions))
    expected = solve_discrete_are(system, entry, weights, costs)
    assert np.allclose(solve_riccati(system, entry, weights, costs), expected, rtol=1e-6, atol=1e-8)


def test_a_system_that_nothing_makes_stable_is_refused() -> None:
    system, entry = np.diag([2.0, 0.5]), np.array([[0.0], [1.0]])
    with pytest.raises(np.linalg.LinAlgError):
        solve_riccati(system, entry, np.eye(2), np.eye(1))
