"""Until its planner is compiled, a coordinator decides with a plain one and logs that; a replay decides the same."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trimtab.deciding import decision_log
from trimtab.deciding.balancer import Balancer
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.decision_log import Entry, from_bytes, to_bytes
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance
from trimtab.deciding.replay import agrees, replay
from trimtab.planning.flux import flux
from trimtab.planning.heaviest_first import heaviest_first
from trimtab.planning.registry import POLICIES
from trimtab.state.files import Folder
from trimtab_lab.workloads.clusters import synthetic_cluster

UNEVEN = Observation.of_events(0, Placement.even(2, 8), [90, 10, 60, 10, 30, 5, 20, 5])


def policy(planner: str = "flux") -> Balance:
    return Balance(planner=planner, measure="events", patience=1, period_batches=1)


@pytest.mark.parametrize("planner", POLICIES)
def test_without_a_compiled_planner_the_plain_one_decides(planner: str) -> None:
    decision = Coordinator(policy(planner)).step(replace(UNEVEN, is_planner_compiled=False))
    assert decision.planner == "heaviest_first"
    assert decision.actions


def test_with_a_compiled_planner_the_policys_own_decides() -> None:
    assert Coordinator(policy()).step(UNEVEN).planner == "flux"


def test_a_log_in_which_the_planner_changes_can_be_replayed() -> None:
    balance = policy()
    coordinator, entries = Coordinator(balance), []
    for batch in range(8):
        observed = replace(UNEVEN, batch=batch, is_planner_compiled=batch >= 4)
        entry = Entry(observed, coordinator.step(observed), balance, None, 1.0, is_first=batch == 0)
        entries.append(from_bytes(to_bytes(entry)))
    assert [entry.decision.planner for entry in entries] == ["heaviest_first"] * 4 + ["flux"] * 4
    assert all(agrees(one) for one in replay(entries))


def test_an_older_log_names_no_planner_and_still_agrees() -> None:
    balance = policy()
    decision = replace(Coordinator(balance).step(UNEVEN), planner="")
    entry = Entry(UNEVEN, decision, balance, None, 1.0, is_first=True)
    assert all(agrees(one) for one in replay([entry]))


class Later:
    """A compiler that finishes when the test calls `done`."""

    def __init__(self) -> None:
        self.done: Callable[..., None] | None = None

    def ask(self, _function: Any, _argument: Any, done: Callable[..., None]) -> None:
        self.done = done


@pytest.mark.parametrize(("went_well", "then"), [(True, "flux"), (False, "heaviest_first")])
def test_the_balancer_swaps_when_the_compiler_is_done_and_never_if_it_failed(
    went_well: bool, then: str, tmp_path: pathlib.Path
) -> None:
    Coordinator(policy()).warm()  # so that there is something to load
    compiler, folder = Later(), Folder(str(tmp_path))
    balancer = Balancer(Coordinator(policy()), folder, compiler)  # type: ignore[arg-type]
    balancer.consider(UNEVEN)
    assert compiler.done is not None
    compiler.done({}, went_well)
    for _ in range(600 if went_well else 1):
        if balancer._is_compiled.wait(0.1):
            break
    balancer.consider(replace(UNEVEN, batch=1))
    balancer.stop()
    assert [entry.decision.planner for entry in decision_log.read(folder)] == ["heaviest_first", then]


def test_the_plain_planner_is_nearly_as_good_as_flux() -> None:
    for seed in range(20):
        problem = synthetic_cluster(20, 400, varies=30.0, seed=seed, max_moves=40)
        plain, other = heaviest_first(problem), flux(problem)
        assert plain.load_distance <= problem.load_distance(problem.homes)
        assert plain.rstd <= 1.25 * other.rstd + 0.5, f"seed {seed}"


def test_units_beside_one_that_fills_half_a_node_are_levelled() -> None:
    loads = np.concatenate([[100.0], np.full(30, 5.0)])
    problem = synthetic_cluster(2, 31, varies=0.0, seed=1)
    problem = replace(problem, loads=loads, homes=np.zeros(31, np.int32), capacities=np.array([100.0, 100.0]))
    assert problem.node_loads(heaviest_first(problem).owner).tolist() == [125.0, 125.0]
