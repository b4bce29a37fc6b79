"""What every controller promises, of the controllers that only the lab has."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.controller_contract import *  # noqa: F403  (all of the contract)
from tests.support.controller_contract import ControllerCase, play
from trimtab.control import FirstOrderModel, PIGains
from trimtab_lab.controllers import PairBalancer, balance_by_lqr

RANDOM = np.random.default_rng(7)
LEAST_SHARE = {"pair": 0.1, "lqr": 0.05}
CASES = {
    "pair": ControllerCase(
        PairBalancer(PIGains(0.1, 0.05), minimum=LEAST_SHARE["pair"]),
        np.array([0.5, 0.5]),
        list(RANDOM.random((50, 2))),
    ),
    "lqr": ControllerCase(
        balance_by_lqr([FirstOrderModel(0.8, 3.0, delay=2)] * 4, caution=1.0, minimum=LEAST_SHARE["lqr"]),
        np.full(4, 0.25),
        list(RANDOM.random((50, 4))),
    ),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> ControllerCase:
    found: ControllerCase = request.param
    return found


@pytest.mark.parametrize("name", CASES)
def test_shares_add_up_and_respect_their_minimum(name: str) -> None:
    actions = np.array(play(CASES[name]))
    assert np.allclose(actions.sum(axis=1), 1.0, atol=1e-12)
    assert actions.min() >= LEAST_SHARE[name] - 1e-15
    assert actions.std() > 0.01
