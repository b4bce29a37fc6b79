"""The coordinator on executors that slow down, and through a day's load curve: loads are computed, not measured."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from tests.support.spreads import spread_over
from trimtab.deciding.actions import applied
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.load_estimates import LoadEstimates
from trimtab.deciding.observation import Int64Array, Observation, ObservedHotKeys
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Measure, Scale
from trimtab.keyed_state import GROUP_SHIFT
from trimtab_lab.workloads.key_streams import zipf_keys

GROUPS = 256
EVENT_NS = 1_000_000
OVERHEAD_S = 0.4


class SimulatedEngines:
    """Engines on executors of their own, of which one may be slow; an event costs a millisecond."""

    def __init__(self, coordinator: Coordinator, engines: int) -> None:
        self.coordinator, self.placement, self.batch = coordinator, Placement.even(engines, GROUPS), 0
        self._noise = np.random.default_rng(1)

    def run(self, keys: Int64Array, *, slow: int = -1, factor: float = 1.0) -> Observation:
        """A batch, in which the executor of one engine may be slow."""
        events = np.bincount(keys * 7919 % GROUPS, minlength=GROUPS)
        owner = self.placement.array()
        cost = EVENT_NS * np.where(owner == slow, factor, 1.0) * self._noise.normal(1.0, 0.03, GROUPS)
        busy_ns = (events * cost).astype(np.int64)
        engine_ns = np.bincount(owner, busy_ns, self.placement.engines).astype(np.int64)
        batch_s = float(engine_ns.max()) / 1e9 + OVERHEAD_S
        observed = dataclasses.replace(
            Observation.of_events(self.batch, self.placement, events.tolist()),
            busy_ns=busy_ns,
            engine_ns=engine_ns,
            executors=tuple(str(engine) for engine in range(self.placement.engines)),
            batch_s=batch_s,
            span_s=max(1.0, batch_s + 0.05),
        )
        self.placement = applied(self.coordinator.step(observed).actions, self.placement)
        self.batch += 1
        return observed


def share(observed: Observation, engine: int) -> float:
    return float(observed.events[observed.placement.array() == engine].sum() / observed.events.sum())


def deviation(observed: Observation) -> float:
    return float(100 * observed.engine_ns.std() / observed.engine_ns.mean())


@pytest.mark.parametrize("slow", range(4))
def test_a_slow_host_gets_what_it_can_handle_within_six_batches_and_its_share_again_afterwards(slow: int) -> None:
    simulated = SimulatedEngines(Coordinator(Balance()), 4)
    batches = iter(np.array_split(zipf_keys(1600 * 40, 1000, 1.05, seed=1), 40))
    even = [simulated.run(next(batches)) for _ in range(10)]
    slowed = [simulated.run(next(batches), slow=slow, factor=3.0) for _ in range(16)]
    again = [simulated.run(next(batches)) for _ in range(14)]
    assert max(deviation(observed) for observed in even[5:]) < 15
    assert np.mean([deviation(observed) for observed in slowed[7:]]) < 20
    assert np.mean([share(observed, slow) for observed in slowed[6:]]) == pytest.approx(0.1, abs=0.04)
    assert np.mean([share(observed, slow) for observed in again[5:]]) == pytest.approx(0.25, abs=0.06)


def test_engines_grow_and_shrink_once_in_a_day() -> None:
    simulated = SimulatedEngines(Coordinator(Balance(), Scale(max_engines=8)), 1)
    keys = zipf_keys(400_000, 1000, 0.5, seed=1)
    engines, used, at_s, span_s = [1], 0, 0.0, 1.0
    while at_s < 120:
        rate = 150 + 2000 * (1 - math.cos(2 * math.pi * at_s / 120)) / 2
        count = round(rate * span_s)
        observed = simulated.run(keys[used : used + count])
        used, span_s = used + count, observed.span_s
        at_s += span_s
        engines.append(simulated.placement.engines)
    changes = [b - a for a, b in itertools.pairwise(engines) if a != b]
    assert sum(a * b < 0 for a, b in itertools.pairwise(changes)) == 1, f"one turn: {changes}"
    assert max(engines) in (5, 6, 7, 8)
    assert engines[-1] <= 2


def test_waiting_for_the_trigger_is_no_work() -> None:
    simulated = SimulatedEngines(Coordinator(Balance(), Scale(max_engines=8)), 1)
    keys = zipf_keys(10_000, 1000, 0.5, seed=1)
    for number in range(20):
        simulated.run(keys[number * 150 : (number + 1) * 150])
    assert simulated.placement.engines == 1, "0.15 s of the 0.6 that are left are a quarter"


@pytest.mark.parametrize("executors", [("a", "a"), ("a", "b")])
def test_the_time_of_an_engines_first_batch_is_not_the_cost_of_its_events(executors: tuple[str, str]) -> None:
    """It loads code, and on a new executor starts Python workers, which takes as long as many batches."""
    estimates = LoadEstimates(Measure.BUSY, half_life=2.0, interval_s=1.0)
    one = Observation.of_events(0, Placement.even(1, 4), [100] * 4)
    for _ in range(5):
        estimates.take(dataclasses.replace(one, executors=executors[:1]))
    two = Observation.of_events(5, Placement.even(2, 4), [100] * 4)
    slow_ns = np.where(two.placement.array() == 1, 20, 1) * two.busy_ns
    estimates.take(dataclasses.replace(two, executors=executors, busy_ns=slow_ns))
    assert estimates.event_ns() == pytest.approx(EVENT_NS)
    assert estimates.capacities(2).tolist() == [100.0, 100.0]
    for _ in range(3):  # it stays slow: now the executor or its key groups are the cause
        estimates.take(dataclasses.replace(two, executors=executors, busy_ns=slow_ns))
    observed = estimates.event_ns() / np.repeat(estimates.capacities(2)[None], 2, 0).ravel()
    assert observed[1] > 2 * observed[0]


@pytest.mark.parametrize("slow", range(4))
def test_an_executor_that_is_slow_from_the_start_is_known_at_once(slow: int) -> None:
    simulated = SimulatedEngines(Coordinator(Balance()), 4)
    batches = np.array_split(zipf_keys(3000 * 12, 1000, 1.05, seed=2), 12)
    observed = [simulated.run(keys, slow=slow, factor=3.0) for keys in batches]
    assert np.mean([deviation(each) for each in observed[6:]]) < 20
    assert max(share(each, slow) for each in observed[6:]) < 0.15


def test_an_executor_with_one_costly_key_group_is_not_slow() -> None:
    estimates = LoadEstimates(Measure.BUSY, half_life=2.0, interval_s=1.0)
    observed = Observation.of_events(0, Placement.even(4, 64), [400, *[20] * 63])
    busy_ns = observed.busy_ns.copy()
    busy_ns[0] *= 10
    for _ in range(2):
        estimates.take(dataclasses.replace(observed, busy_ns=busy_ns, executors=tuple("abcd")))
    assert estimates.capacities(4).tolist() == [100.0] * 4


def test_a_hot_key_is_as_heavy_on_a_slow_host_as_elsewhere() -> None:
    """A key on each executor, and one that is spread over both: 300 events each."""
    estimates = LoadEstimates(Measure.BUSY, half_life=2.0, interval_s=1.0)
    slots = np.array([group << GROUP_SHIFT for group in range(3)])
    placement = Placement.even(2, 64).with_spread((spread_over(int(slots[2]), [0, 1]),))
    observed = Observation.of_events(0, placement, [320, 320, *[20] * 62])
    slower = np.where(placement.array() == 1, 3.0, 1.0)
    hot = ObservedHotKeys(slots, np.full(3, 300), (300 * EVENT_NS * np.array([1.0, 3.0, 2.0])).astype(np.int64))
    busy_ns = (observed.busy_ns * slower).astype(np.int64)
    for _ in range(2):
        estimates.take(dataclasses.replace(observed, busy_ns=busy_ns, executors=("a", "b"), hot=hot))
    loads = estimates.hot_keys()[1]
    assert loads == pytest.approx(np.full(3, loads[0]))
