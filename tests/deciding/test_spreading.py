"""Shares of hot keys: complete, even, and unchanged from batch to batch while they are good enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.spreads import spread_over
from trimtab.deciding.placement import SCHEMES, SHARES, Placement, Spread
from trimtab.deciding.spreading import HotLoads, spread_keys

SLOTS = [(group << 48) + 977 * group for group in range(1, 9)]
LEVELLING = ("random-choices", "consistent")


def hot(loads: list[float], base: list[float], homes: list[int] | None = None) -> HotLoads:
    own = homes or [0] * len(loads)
    return HotLoads(np.array(SLOTS[: len(loads)]), np.array(loads), np.array(own, np.int32), np.array(base))


def filled(found: tuple[Spread, ...], observed: HotLoads) -> list[float]:
    """The load of each engine with these shares; keys that aren't spread are on their home engine."""
    loads = observed.base.copy()
    spread = {each.slot: each for each in found}
    for slot, load, home in zip(observed.slots.tolist(), observed.loads, observed.homes, strict=True):
        engines = spread[slot].engines if slot in spread else (home,) * SHARES
        np.add.at(loads, list(engines), load / SHARES)
    return list(loads)


def deviation(loads: list[float]) -> float:
    return float(100 * np.std(loads) / np.mean(loads))


@st.composite
def batches(draw: st.DrawFn) -> HotLoads:
    engines = draw(st.integers(1, 9))
    amounts = st.floats(0, 1000)
    base = draw(st.lists(amounts, min_size=engines, max_size=engines))
    loads = draw(st.lists(amounts, max_size=len(SLOTS)))
    homes = draw(st.lists(st.integers(0, engines - 1), min_size=len(loads), max_size=len(loads)))
    return HotLoads(np.array(SLOTS[: len(loads)], np.int64), np.array(loads), np.array(homes, np.int32), np.array(base))


@given(batches(), st.sampled_from(SCHEMES), st.data())
def test_shares_are_complete_and_on_engines_that_may_have_them(
    observed: HotLoads, scheme: str, data: st.DataObject
) -> None:
    engines = len(observed.base)
    capacities = np.array(
        data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=engines, max_size=engines))
    )
    found = spread_keys(scheme, observed, capacities)
    assert [each.slot for each in found] == sorted({each.slot for each in found})
    for each in found:
        assert len(each.engines) == SHARES
        assert all(capacities[engine] > 0 for engine in each.engines)
        assert scheme != "pkg" or len(set(each.engines)) <= 2
    if found:
        Placement.even(engines, 16).with_spread(found)
    again = spread_keys(scheme, observed, capacities, before=found)
    assert again == found, "nothing has changed"


@given(batches(), st.sampled_from(LEVELLING))
def test_engines_are_uneven_only_because_of_keys_that_are_not_hot(observed: HotLoads, scheme: str) -> None:
    found = spread_keys(scheme, observed)
    loads, total = filled(found, observed), float(observed.base.sum() + observed.loads.sum())
    if len(loads) == 1 or total == 0:
        assert found == ()
        return
    mean = total / len(loads)
    spread = {each.slot for each in found}
    whole = observed.base.copy()
    for slot, load, home in zip(observed.slots.tolist(), observed.loads, observed.homes, strict=True):
        whole[home] += load if slot not in spread else 0.0
    grain = sum(
        load / SHARES for slot, load in zip(observed.slots.tolist(), observed.loads, strict=True) if slot in spread
    )
    assert max(loads) <= max(1.011 * mean + grain, whole.max() + 1e-6)


@pytest.mark.parametrize("scheme", LEVELLING)
@pytest.mark.parametrize("engines", [2, 4, 8, 16])
def test_one_key_with_most_of_the_stream_is_spread_evenly(scheme: str, engines: int) -> None:
    observed = hot([60.0], [40.0 / engines] * engines)
    found = spread_keys(scheme, observed)
    assert len(set(found[0].engines)) == engines
    assert deviation(filled(found, observed)) < 10
    assert deviation(filled((), observed)) > 50


def test_pkg_levels_the_two_engines_that_a_key_is_hashed_to() -> None:
    observed = hot([60.0], [10.0, 12.0, 8.0, 10.0])
    [found] = spread_keys("pkg", observed)
    assert len(set(found.engines)) == 2
    assert deviation([load for engine, load in enumerate(filled((found,), observed)) if engine in found.engines]) < 2


@pytest.mark.parametrize("scheme", LEVELLING)
def test_engines_get_what_they_are_strong_enough_for(scheme: str) -> None:
    observed = hot([70.0], [10.0, 10.0, 10.0])
    found = spread_keys(scheme, observed, np.array([1.0, 1.0, 2.0]))
    assert filled(found, observed) == pytest.approx([25, 25, 50], rel=0.1), "within a virtual worker"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_keys_below_the_threshold_stay_whole(scheme: str) -> None:
    assert spread_keys(scheme, hot([10.0], [22.5] * 4)) == ()
    assert spread_keys(scheme, hot([20.0], [20.0] * 4)) != ()
    assert spread_keys(scheme, hot([90.0], [10.0])) == (), "one engine has nowhere to spread to"


@given(st.sampled_from(SCHEMES), st.lists(st.floats(0.98, 1.02), min_size=6, max_size=6))
def test_small_changes_of_load_change_nothing(scheme: str, noise: list[float]) -> None:
    before = spread_keys(scheme, hot([60.0, 30.0], [10.0] * 4))
    assert len(before) == 2
    base = [10.0 * factor for factor in noise[2:]]
    assert spread_keys(scheme, hot([60 * noise[0], 30 * noise[1]], base), before=before) == before


def test_a_key_that_cools_down_returns_to_one_engine_but_not_at_once() -> None:
    before = spread_keys("consistent", hot([30.0], [18.0] * 4))
    assert before
    assert spread_keys("consistent", hot([11.0], [22.0] * 4), before=before) == before, "just below the threshold"
    assert spread_keys("consistent", hot([5.0], [24.0] * 4), before=before) == ()
    assert spread_keys("consistent", hot([], [25.0] * 4), before=before) == ()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_shares_of_another_scheme_or_of_engines_without_capacity_are_not_kept(scheme: str) -> None:
    observed = hot([60.0], [10.0] * 4)
    [even] = [spread_over(SLOTS[0], [0, 1, 2, 3])]
    found = spread_keys(scheme, observed, before=[even])
    assert (found == (even,)) == (scheme != "pkg")
    [weak] = spread_keys(scheme, observed, np.array([0.0, 1.0, 1.0, 1.0]), before=[even])
    assert 0 not in weak.engines
