"""The benchmark of the store still runs, on very few keys, and all stores hold the same state."""

from __future__ import annotations

import pytest

from benchmarks import report, state_store

pytestmark = pytest.mark.papers


@pytest.mark.slow
def test_the_store_and_its_peers_agree() -> None:
    pytest.importorskip("rocksdict", reason="only benchmarks need it")
    result = state_store.run(state_store.TINY)
    [table] = result.tables
    assert len(table.rows) == len(state_store.STORES) * len(state_store.TINY.live_keys)
    assert "| 300 | trimtab |" in report.section(result)
