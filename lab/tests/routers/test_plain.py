"""The compiled routers choose, message for message, what the plain loops choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.routers.plain_routers import PLAIN, PlainSpaceSaving
from trimtab_lab.routers import ROUTERS
from trimtab_lab.routers.hot_keys import USED, new_sketch, see
from trimtab_lab.workloads.key_streams import zipf_keys

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "KG": [{}],
    "SG": [{}],
    "PKG": [{}, {"sources": 3}],
    "PoTC": [{}, {"sources": 3}],
    "PoRC": [{}, {"sources": 3}, {"epsilon": 0.0}, {"epsilon": 0.3, "max_rehash": 3}, {"max_rehash": 21}],
    "CH": [{}, {"points": 5}, {"epsilon": 0.3}],
    "CG": [{}, {"sources": 3, "virtual_workers": 4}],
    "D-C": [{}, {"sources": 3}, {"hot_share": 0.02}],
    "W-C": [{}, {"sources": 3}, {"hot_share": 0.02}],
}
CASES = [
    pytest.param(name, {**options, **more}, id="-".join([name, *map(str, options), *map(str, more)]))
    for name, every in OPTIONS.items()
    for options in every
    for more in ({}, {"half_life": 50.0}, {"capacities": "some"})
]


def test_every_router_has_a_twin() -> None:
    assert list(PLAIN) == list(ROUTERS)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_router_is_its_plain_loop(name: str, options: dict[str, Any]) -> None:
    for workers, exponent in ((1, 1.0), (2, 2.0), (9, 0.5), (30, 1.5)):
        if "capacities" in options:
            options = options | {"capacities": [0.5 + (3 * w) % 7 if w % 4 != 3 else 0.0 for w in range(workers)]}
        keys = zipf_keys(1000, 400, exponent, seed=workers) - 100
        chosen = ROUTERS[name](workers, seed=5, **options).route(keys)
        assert chosen.tolist() == PLAIN[name](workers, seed=5, **options).route(keys.tolist())


@settings(max_examples=100)
@given(
    keys=st.lists(st.integers(0, 30), max_size=300), counters=st.integers(1, 12), halving=st.none() | st.integers(1, 40)
)
def test_the_sketch_is_its_plain_twin(keys: list[int], counters: int, halving: int | None) -> None:
    table, index, state = new_sketch(counters, halving or 0)
    plain = PlainSpaceSaving(counters, halving)
    for key in keys:
        see(np.int64(key), table, index, state, halving or 0)
        plain.see(key)
        rows = {int(k): [int(c), int(e), n] for n, (k, c, e) in enumerate(table[: state[USED]])}
        assert rows == plain.counts
