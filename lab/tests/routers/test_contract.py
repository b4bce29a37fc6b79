"""What every router promises, checked on each one in the registry."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab_lab.routers
from trimtab.errors import BalanceError
from trimtab_lab.routers import ROUTERS
from trimtab_lab.routers.counting import CountingRouter
from trimtab_lab.workloads.key_streams import zipf_keys

EVERY = pytest.mark.parametrize("make", list(ROUTERS.values()), ids=list(ROUTERS))
BIG = np.iinfo(np.int64)

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "KG": [{}],
    "SG": [{}],
    "PKG": [{}, {"sources": 3}],
    "PoTC": [{}, {"sources": 3}],
    "PoRC": [{}, {"sources": 3}, {"epsilon": 0.0}, {"epsilon": 0.5, "max_rehash": 3}],
    "CH": [{}, {"points": 5}, {"epsilon": 0.0}],
    "CG": [{}, {"sources": 3, "ack_delay": 5, "virtual_workers": 3}],
    "D-C": [{}, {"sources": 3}, {"hot_share": 0.3}],
    "W-C": [{}, {"sources": 3}, {"hot_share": 0.3}],
}
VARIANTS = [
    pytest.param(ROUTERS[name], {**options, **more}, id="-".join([name, *map(str, options), *map(str, more)]))
    for name, every in OPTIONS.items()
    for options in every
    for more in ({}, {"half_life": 20.0, "capacities": (3.0, 0.0, 1.0, 2.0, 2.0)})
]
EVERY_VARIANT = pytest.mark.parametrize(("make", "options"), VARIANTS)

keys_in_cuts = st.lists(st.lists(st.integers(-3, 12) | st.integers(BIG.min, BIG.max), max_size=40), max_size=8)


def column(keys: list[int]) -> np.typing.NDArray[np.int64]:
    return np.array(keys, np.int64)


def test_the_registry_is_what_is_public() -> None:
    public = [getattr(trimtab_lab.routers, name) for name in trimtab_lab.routers.__all__]
    assert set(ROUTERS.values()) == {thing for thing in public if isinstance(thing, type)}


@EVERY_VARIANT
@settings(max_examples=10)
@given(cuts=keys_in_cuts)
def test_how_a_column_is_cut_changes_nothing(
    make: type[CountingRouter], options: dict[str, Any], cuts: list[list[int]]
) -> None:
    whole, cut = make(5, seed=7, **options), make(5, seed=7, **options)
    answer = whole.route(column([key for part in cuts for key in part]))
    parts = [cut.route(column(part)).tolist() for part in cuts]
    assert answer.tolist() == [worker for part in parts for worker in part]
    assert whole.loads.tolist() == cut.loads.tolist()
    assert whole.replicas == cut.replicas


@EVERY_VARIANT
def test_pickling_in_the_middle_of_a_stream_changes_nothing(
    make: type[CountingRouter], options: dict[str, Any]
) -> None:
    keys = zipf_keys(3000, 300, 1.2, seed=3)
    router = make(5, seed=2, **options)
    router.route(keys[:1700])
    copy = pickle.loads(pickle.dumps(router))
    assert copy.route(keys[1700:]).tolist() == router.route(keys[1700:]).tolist()
    assert copy.loads.tolist() == router.loads.tolist()
    assert copy.replicas == router.replicas
    assert copy.messages == router.messages == 3000


@EVERY_VARIANT
def test_counts_and_replicas_are_those_of_what_was_returned(
    make: type[CountingRouter], options: dict[str, Any]
) -> None:
    keys = zipf_keys(4000, 900, 0.8, seed=5) - 400
    router = make(5, seed=4, **options)
    chosen = np.concatenate([router.route(part) for part in np.split(keys, [0, 1, 1300])])
    assert chosen.dtype == np.int32
    ages = np.arange(keys.size)[::-1] if "half_life" in options else np.zeros(keys.size)
    weights = 2.0 ** (-ages / options.get("half_life", 1.0))
    assert router.loads == pytest.approx(np.bincount(chosen, weights, minlength=5), rel=1e-9)
    pairs = set(zip(keys.tolist(), chosen.tolist(), strict=True))
    assert router.replicas == len(pairs)
    assert router.replicas_by_worker.tolist() == [sum(w == worker for _, w in pairs) for worker in range(5)]
    capacities = router.capacities
    fills = [load / capacity for load, capacity in zip(router.loads, capacities, strict=True) if capacity]
    assert router.imbalance == pytest.approx(max(fills) / (router.loads.sum() / capacities.sum()) - 1)


@EVERY
def test_the_same_seed_gives_the_same_answer_and_another_seed_another(make: type[CountingRouter]) -> None:
    keys = zipf_keys(500, 100, 1.0, seed=1)
    assert make(7, seed=3).route(keys).tolist() == make(7, seed=3).route(keys).tolist()
    assert make(7, seed=3).route(keys).tolist() != make(7, seed=4).route(keys).tolist()


@EVERY
def test_no_messages_and_one_message(make: type[CountingRouter]) -> None:
    router = make(3)
    assert router.route(column([])).tolist() == []
    assert (router.messages, router.replicas, router.imbalance, router.loads.tolist()) == (0, 0, 0.0, [0.0] * 3)
    (worker,) = router.route(column([42])).tolist()
    assert router.loads.tolist() == [float(w == worker) for w in range(3)]
    assert router.imbalance == pytest.approx(2.0)


@EVERY
def test_one_worker_takes_all(make: type[CountingRouter]) -> None:
    router = make(1)
    assert set(router.route(np.arange(100))) == {0}
    assert (router.imbalance, router.replicas) == (0.0, 100)


@EVERY
def test_the_extreme_keys_are_keys_as_well(make: type[CountingRouter]) -> None:
    router = make(4)
    router.route(column([BIG.min, BIG.max, 0, -1] * 50))
    assert router.loads.sum() == 200
    assert 4 <= router.replicas <= 16


@EVERY
def test_a_worker_without_capacity_gets_nothing(make: type[CountingRouter]) -> None:
    router = make(6, capacities=(0, 1, 0, 4, 1e-9, 0))
    router.route(zipf_keys(5000, 50, 1.0, seed=1))
    assert router.loads[[0, 2, 5]].tolist() == [0.0] * 3
    assert router.replicas_by_worker[[0, 2, 5]].tolist() == [0] * 3


@EVERY
def test_stronger_workers_get_more(make: type[CountingRouter]) -> None:
    router = make(4, capacities=(1, 1, 4, 4))
    router.route(np.arange(20_000))
    assert router.loads / 20_000 == pytest.approx([0.1, 0.1, 0.4, 0.4], abs=0.02)


@EVERY
def test_equal_capacities_give_the_same_as_no_capacities(make: type[CountingRouter]) -> None:
    keys = zipf_keys(2000, 100, 1.0, seed=1)
    assert make(7, capacities=[0.3] * 7).route(keys).tolist() == make(7).route(keys).tolist()


@EVERY
@pytest.mark.parametrize("capacities", [(0, 0, 0), (1, 2), (1, -1, 1), (1, np.nan, 1), (1, np.inf, 1), ((1, 1, 1),)])
def test_invalid_capacities_are_refused(make: type[CountingRouter], capacities: Any) -> None:
    with pytest.raises(BalanceError, match=r"route\.capacities"):
        make(3, capacities=capacities)


@EVERY
@pytest.mark.parametrize("workers", [0, -1, 1 << 21])
def test_invalid_numbers_of_workers_are_refused(make: type[CountingRouter], workers: int) -> None:
    with pytest.raises(BalanceError, match=r"route\.workers"):
        make(workers)


@EVERY
def test_keys_that_are_no_column_of_integers_are_refused(make: type[CountingRouter]) -> None:
    for keys in (np.array([0.5]), np.array([[1]]), np.array(["a"])):
        with pytest.raises(BalanceError, match=r"route\.keys"):
            make(2).route(keys)


@EVERY
def test_narrow_and_strided_columns_are_routed_as_what_they_hold(make: type[CountingRouter]) -> None:
    keys = np.arange(0, 200, dtype=np.int64)
    assert make(5).route(keys.astype(np.int16)).tolist() == make(5).route(keys).tolist()
    assert make(5).route(keys[::2]).tolist() == make(5).route(keys[::2].copy()).tolist()


@EVERY
def test_replicas_are_counted_only_if_requested(make: type[CountingRouter]) -> None:
    router = make(2, count_replicas=False)
    router.route(np.arange(10))
    with pytest.raises(BalanceError, match=r"route\.replicas"):
        _ = router.replicas


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("KG", {"half_life": 0.5}),
        ("PKG", {"sources": 0}),
        ("PoTC", {"sources": 0}),
        ("PoRC", {"epsilon": -0.1}),
        ("PoRC", {"epsilon": float("nan")}),
        ("PoRC", {"max_rehash": 0}),
        ("CH", {"points": 0}),
        ("CG", {"virtual_workers": 0}),
        ("CG", {"ack_delay": -1}),
        ("D-C", {"hot_share": 0.0}),
        ("D-C", {"epsilon": 0.0}),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(BalanceError, match=r"route\.option"):
        ROUTERS[name](3, **options)
