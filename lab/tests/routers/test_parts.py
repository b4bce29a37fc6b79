"""The parts of routers: hashes, the set of replicas, decaying counts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.deciding.spreading import mix_plain
from trimtab_lab.routers import KeyGrouping
from trimtab_lab.routers.decay import HUGE
from trimtab_lab.routers.hashing import alias_table, mix
from trimtab_lab.routers.replicas import ReplicaSet


@given(st.integers(0, 2**64 - 1))
def test_mixing_is_the_same_in_python(word: int) -> None:
    assert int(mix(np.uint64(word))) == mix_plain(word)


def test_neighbouring_keys_are_spread_evenly() -> None:
    router = KeyGrouping(100)
    router.route(np.arange(1_000_000))
    # The sum of 99 squares of normal deviates: 99 on average, and below 160 but once in ten thousand times.
    assert ((router.loads - 10_000) ** 2 / 10_000).sum() < 160


def test_seeds_are_independent() -> None:
    keys = np.arange(100_000)
    same = np.mean(KeyGrouping(10, seed=0).route(keys) == KeyGrouping(10, seed=1).route(keys))
    assert same == pytest.approx(0.1, abs=0.005)


@given(st.lists(st.sampled_from([0.0, 1e-12, 0.1, 1.0, 3.0, 1e6]), min_size=1, max_size=40).filter(any))
def test_the_alias_table_stands_for_the_capacities(capacities: list[float]) -> None:
    thresholds, aliases = alias_table(np.array(capacities))
    drawn = np.zeros(len(capacities))
    for slot, (threshold, alias) in enumerate(zip(thresholds.tolist(), aliases.tolist(), strict=True)):
        drawn[slot] += threshold / 2**32
        drawn[alias] += 1 - threshold / 2**32
    expected = np.array(capacities) / sum(capacities)
    assert drawn / len(capacities) == pytest.approx(expected, abs=1e-8)
    assert [d for d, c in zip(drawn, capacities, strict=True) if c == 0 and d != 0] == []


def test_the_set_of_replicas_grows_and_stays_exact() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, 20_000)
    keys[::3] = rng.integers(-50, 50, keys[::3].size)
    chosen = rng.integers(0, 7, keys.size).astype(np.int32)
    pairs = ReplicaSet(7)
    for part, workers in zip(np.array_split(keys, 7), np.array_split(chosen, 7), strict=True):
        pairs.add(part, workers)
    expected = set(zip(keys.tolist(), chosen.tolist(), strict=True))
    for kept in (pairs, pickle.loads(pickle.dumps(pairs))):
        assert len(kept) == len(expected)
        assert {(int(key), int(worker)) for key, worker in kept.pairs()} == expected


def test_weights_that_got_huge_are_scaled_down_in_time() -> None:
    router = KeyGrouping(3, half_life=1.0)
    chosen = router.route(np.arange(5000))
    assert router._counted.max() <= 2 * HUGE
    weights = 2.0 ** -np.arange(60.0)
    assert router.loads == pytest.approx(np.bincount(chosen[::-1][:60], weights, minlength=3))
