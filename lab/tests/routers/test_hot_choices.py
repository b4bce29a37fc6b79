"""Hot keys are found, and get as many workers as they need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab_lab.routers import DChoices, PartialKeyGrouping, WChoices
from trimtab_lab.routers.hot_choices import choices_needed
from trimtab_lab.routers.hot_keys import COUNT, KEY, TOTAL, USED, new_sketch, see
from trimtab_lab.workloads.key_streams import zipf_keys

BOTH = pytest.mark.parametrize("make", [DChoices, WChoices])


@given(keys=st.lists(st.integers(0, 25), max_size=400), size=st.integers(1, 10))
def test_a_count_is_never_too_low_and_too_high_by_its_error_at_most(keys: list[int], size: int) -> None:
    counters, index, state = new_sketch(size, 0)
    for key in keys:
        see(np.int64(key), counters, index, state, 0)
    used = counters[: state[USED]]
    assert state[TOTAL] == used[:, COUNT].sum() == len(keys)
    for key, count, error in used:
        assert count - error <= keys.count(key) <= count
        assert error <= len(keys) / size
    frequent = {key for key in keys if keys.count(key) > len(keys) / size}
    assert frequent <= set(used[:, KEY].tolist())


def test_halving_forgets_old_messages() -> None:
    counters, index, state = new_sketch(8, 100)
    for key in [1] * 1000 + [2] * 300:
        see(np.int64(key), counters, index, state, 100)
    counts = {int(key): int(count - error) for key, count, error in counters[:2]}
    assert counts[2] > 3 * counts[1]


@BOTH
def test_exactly_the_hot_keys_are_found(make: type[DChoices] | type[WChoices]) -> None:
    keys = zipf_keys(200_000, 10_000, 1.3, seed=2)
    router = make(20, hot_share=0.01)
    router.route(keys)
    names, counts = np.unique(keys, return_counts=True)
    found = set(router.hot_keys().tolist())
    assert set(names[counts >= 0.0115 * keys.size].tolist()) <= found <= set(names[counts >= 0.01 * keys.size].tolist())
    assert counts[np.searchsorted(names, router.hot_keys()[0])] == counts.max()


@BOTH
def test_they_balance_where_two_choices_are_not_enough(make: type[DChoices] | type[WChoices]) -> None:
    keys = zipf_keys(300_000, 20_000, 1.5, seed=1)
    two, more = PartialKeyGrouping(50), make(50)
    two.route(keys)
    more.route(keys)
    assert two.imbalance > 5
    assert more.imbalance < 0.05
    assert more.replicas < 1.5 * two.replicas


@BOTH
def test_cold_keys_have_two_workers_at_most(make: type[DChoices] | type[WChoices]) -> None:
    keys = np.random.default_rng(1).permutation(np.repeat(np.arange(2000), 10))
    router = make(10)
    chosen = router.route(keys)
    assert router.hot_keys().tolist() == []
    assert max(len(set(chosen[keys == key])) for key in range(0, 2000, 50)) <= 2


def test_a_hot_key_of_d_choices_stays_on_as_many_workers() -> None:
    keys = np.where(np.arange(100_000) % 10 < 2, -1, np.arange(100_000))
    router = DChoices(100)
    chosen = router.route(keys)
    late = chosen[50_000:][keys[50_000:] == -1]
    assert 20 <= len(set(late.tolist())) <= router.choices < 100


def test_with_a_half_life_other_keys_get_hot() -> None:
    first, then = np.full(20_000, 1), np.full(20_000, 2)
    noise = np.arange(100, 20_100)
    keys = np.concatenate([np.stack([first, noise]).T.ravel(), np.stack([then, noise]).T.ravel()])
    router = WChoices(10, half_life=3000, hot_share=0.2)
    router.route(keys)
    assert router.hot_keys().tolist() == [2]


@given(
    shares=st.lists(st.floats(0.001, 0.5), max_size=6).filter(lambda shares: sum(shares) <= 1),
    workers=st.integers(1, 60),
)
def test_enough_choices_are_at_least_two_and_at_least_the_heaviest_keys_share(
    shares: list[float], workers: int
) -> None:
    hot = np.sort(np.array(shares, np.float64))[::-1]
    needed = choices_needed(hot, 1 - hot.sum(), workers, 1e-4)
    assert min(2, workers) <= needed <= workers
    if shares:
        assert needed >= min(workers, hot[0] * workers)
