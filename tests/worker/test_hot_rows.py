"""The hottest keys of an engine are found in a sample; the rows of spread keys are counted exactly."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.worker.hot_rows import MOST_HOT, SAMPLE, HotRows

GROUPS = 8


def reported(hot: HotRows, rows: int) -> dict[int, tuple[int, int, bool]]:
    """By slot: events, busy nanoseconds, whether it is spread. All rows are in group 0, and take 10 ns each."""
    by_group, busy_ns = np.zeros(GROUPS, np.int32), np.zeros(GROUPS, np.int64)
    by_group[0], busy_ns[0] = rows, 10 * rows
    columns = hot.report(by_group, busy_ns, 1.0)
    rows_of = zip(*(column.tolist() for column in columns), strict=True)
    return {slot: (events, spent_ns, is_spread) for slot, events, spent_ns, is_spread in rows_of}


def test_hot_keys_of_a_large_batch_are_found_in_a_sample() -> None:
    slots = np.random.default_rng(1).integers(100, 100_000, 6 * SAMPLE)
    slots[::2] = 7
    slots[1::20] = 8
    hot = HotRows(np.empty(0, np.int64))
    assert hot.count(slots) is None
    found = reported(hot, len(slots))
    assert set(found) == {7, 8}
    assert found[7][0] == pytest.approx(0.5 * len(slots), rel=0.03)
    assert found[8][0] == pytest.approx(0.05 * len(slots), rel=0.1)
    assert found[7][1] == pytest.approx(10 * found[7][0], rel=0.01)


def test_rows_of_spread_keys_are_counted_exactly_and_apart() -> None:
    slots = np.random.default_rng(1).integers(100, 100_000, 6 * SAMPLE)
    slots[::2] = 7
    hot = HotRows(np.array([5, 7]))
    parts = hot.count(slots)
    assert parts is not None
    assert parts.tolist() == (slots == 7).tolist()
    hot.charge(slots[parts], 1000.0)
    assert reported(hot, len(slots) // 2) == {5: (0, 0, True), 7: (3 * SAMPLE, 1000 + 3 * SAMPLE, True)}
    assert hot.report(np.zeros(GROUPS, np.int32), np.zeros(GROUPS, np.int64), 0.0).spread_events == 3 * SAMPLE


def test_several_routes_add_up_and_only_the_hottest_keys_are_reported() -> None:
    hot = HotRows(np.empty(0, np.int64))
    for _ in range(2):
        hot.count(np.repeat(np.arange(50), np.arange(1, 51)))
    found = reported(hot, 2 * 1275)
    assert len(found) == MOST_HOT
    assert found[49][0] == 100
    assert min(found) == 50 - MOST_HOT
