"""No worker is ever above its bound, after any message: the promise of PoRC and of bounded consistent hashing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_lab.routers import BoundedConsistentHash, ConsistentGrouping, RandomChoices, ShuffleGrouping
from trimtab_lab.routers.router import Int32Array
from trimtab_lab.workloads.key_streams import zipf_keys

BOUNDED = pytest.mark.parametrize("make", [RandomChoices, BoundedConsistentHash])
EPSILONS = st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0, 5.0])

keys_of_few = st.lists(st.integers(0, 5), max_size=250)


def highest_above_bound(
    chosen: Int32Array, shares: np.typing.NDArray[np.float64], epsilon: float, slack: float = 1.0
) -> float:
    """By how many messages any worker is above (1 + epsilon) * share + slack, over all moments."""
    sent = np.cumsum(chosen[:, np.newaxis] == np.arange(shares.size), axis=0)
    bounds = (1 + epsilon) * np.arange(1, chosen.size + 1)[:, np.newaxis] * shares + slack
    return float((sent - bounds).max(initial=-np.inf))


@BOUNDED
@given(keys=keys_of_few, workers=st.integers(1, 12), epsilon=EPSILONS, seed=st.integers(0, 99))
def test_the_bound_holds_after_every_message(
    make: Any, keys: list[int], workers: int, epsilon: float, seed: int
) -> None:
    chosen = make(workers, epsilon=epsilon, seed=seed).route(np.array(keys, np.int64))
    assert highest_above_bound(chosen, np.full(workers, 1 / workers), epsilon) <= 1e-9


@BOUNDED
@given(
    keys=keys_of_few,
    capacities=st.lists(st.sampled_from([0.0, 0.1, 1.0, 1.5, 10.0]), min_size=1, max_size=8).filter(any),
    epsilon=EPSILONS,
)
def test_the_bound_holds_for_unequal_workers(
    make: Any, keys: list[int], capacities: list[float], epsilon: float
) -> None:
    shares = np.array(capacities) / sum(capacities)
    chosen = make(len(capacities), epsilon=epsilon, capacities=capacities).route(np.array(keys, np.int64))
    assert highest_above_bound(chosen, shares, epsilon) <= 1e-9


@settings(max_examples=60)
@given(keys=keys_of_few, max_rehash=st.integers(1, 6), epsilon=EPSILONS)
def test_the_bound_holds_whatever_the_cap_on_rehashing(keys: list[int], max_rehash: int, epsilon: float) -> None:
    chosen = RandomChoices(7, epsilon=epsilon, max_rehash=max_rehash).route(np.array(keys, np.int64))
    assert highest_above_bound(chosen, np.full(7, 1 / 7), epsilon) <= 1e-9


@BOUNDED
@settings(max_examples=60)
@given(keys=keys_of_few, epsilon=EPSILONS, half_life=st.sampled_from([1.0, 3.0, 20.0, 100.0]))
def test_the_bound_holds_for_loads_that_fade(make: Any, keys: list[int], epsilon: float, half_life: float) -> None:
    router = make(5, epsilon=epsilon, half_life=half_life)
    for key in keys:
        router.route(np.array([key]))
        assert router.loads.max() <= (1 + epsilon) * router.loads.mean() + 1 + 1e-9


@settings(max_examples=60)
@given(keys=keys_of_few, epsilon=EPSILONS, sources=st.integers(1, 4))
def test_each_further_source_adds_one_message_to_the_bound(keys: list[int], epsilon: float, sources: int) -> None:
    chosen = RandomChoices(5, epsilon=epsilon, sources=sources).route(np.array(keys, np.int64))
    assert highest_above_bound(chosen, np.full(5, 1 / 5), epsilon, slack=sources) <= 1e-9


@pytest.mark.parametrize("exponent", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("workers", [10, 1000])
def test_the_bound_holds_on_long_skewed_streams(workers: int, exponent: float) -> None:
    keys = zipf_keys(300_000, 100_000, exponent, seed=1)
    for router in (
        RandomChoices(workers, epsilon=0.01, count_replicas=False),
        BoundedConsistentHash(workers, epsilon=0.01, count_replicas=False),
    ):
        for part in np.array_split(keys, 300):
            router.route(part)
            assert router.loads.max() <= 1.01 * router.messages / workers + 1 + 1e-9


def test_virtual_workers_keep_the_bound_for_each_source() -> None:
    router = ConsistentGrouping(5, epsilon=0.02, virtual_workers=4, sources=3)
    for part in np.array_split(zipf_keys(60_000, 1000, 1.5, seed=1), 60):
        router.route(part)
        assert router.virtual_loads.max() <= 1.02 * router.messages / 20 + 3 + 1e-9


def test_a_larger_epsilon_takes_less_memory() -> None:
    keys = zipf_keys(200_000, 20_000, 1.2, seed=1)
    replicas = []
    for epsilon in (0.0, 0.01, 0.1, 1.0):
        router = RandomChoices(50, epsilon=epsilon)
        router.route(keys)
        replicas.append(router.replicas)
    assert replicas == sorted(replicas, reverse=True)
    assert replicas[0] > 1.2 * replicas[-1]


def test_a_weighted_cycle_stays_within_a_message_of_the_shares() -> None:
    capacities = np.array([5.0, 5.0, 1.0, 1.0, 2.0])
    chosen = ShuffleGrouping(5, capacities=capacities).route(np.zeros(1000, np.int64))
    shares = capacities / capacities.sum()
    assert highest_above_bound(chosen, shares, epsilon=0.0) <= 1e-9
