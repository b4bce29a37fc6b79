"""Every range has a task, and tasks get as much as they should."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.sources.source import Range, positions_of
from trimtab.worker.reading_tasks import NEAR, for_executors, in_proportion, pieces, shared_out


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(1, 6))
def test_every_range_has_one_task_and_no_task_has_much_more_than_another(counts: list[int], tasks: int) -> None:
    parts = pieces([Range(f"p{number}", 5, 5 + count) for number, count in enumerate(counts)], tasks)
    assert sum(part.end - part.start for part in parts) == sum(counts)
    shares = shared_out(parts, tasks)
    assert sorted((part for own in shares for part in own), key=str) == sorted(parts, key=str)
    assert all(shares)
    assert len(shares) == min(tasks, len(parts))
    loads = np.array([sum(part.end - part.start for part in own) for own in shares])
    largest = max((part.end - part.start for part in parts), default=0)
    assert not len(loads) or loads.max() - loads.min() <= largest


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=8), st.lists(st.floats(0.01, 10.0), min_size=1, max_size=8))
def test_tasks_read_in_proportion_to_their_weights(counts: list[int], weights: list[float]) -> None:
    ranges = [Range(f"p{number}", 7, 7 + count) for number, count in enumerate(counts)]
    tasks = in_proportion(ranges, weights)
    assert len(tasks) == len(weights)
    parts = [part for own in tasks for part in own]
    assert all(part.end > part.start for part in parts)
    for whole in ranges:  # every position once, in order
        own = [part for part in parts if part.partition == whole.partition]
        assert positions_of(own) == positions_of([whole])
        assert all(a.end == b.start for a, b in itertools.pairwise(own))
        assert not own or (own[0].start, own[-1].end) == (whole.start, whole.end)
    due = positions_of(ranges) * np.cumsum(weights) / np.sum(weights)
    given_out = np.cumsum([positions_of(own) for own in tasks])
    slack = NEAR * positions_of(ranges) * np.array(weights) / np.sum(weights)
    # What a task reads more than it should, those with small weights after it don't get.
    assert (np.abs(given_out - due) <= np.maximum.accumulate(slack) + 1).all()


WEIGHTS = st.lists(st.tuples(st.sampled_from("xyz"), st.floats(0.01, 10.0)), min_size=1, max_size=20)


@given(st.lists(st.integers(0, 5), max_size=8), WEIGHTS)
def test_tasks_of_executors_have_something_to_read_in_their_order(
    counts: list[int], weights: list[tuple[str, float]]
) -> None:
    ranges = [Range(f"p{number}", 7, 7 + count) for number, count in enumerate(counts)]
    found, every = for_executors(ranges, weights), in_proportion(ranges, [weight for _, weight in weights])
    assert all(own for _, own in found)
    names = [name for name, _ in weights]
    assert found == [pair for pair in zip(names, every, strict=True) if pair[1]]
    assert sum(positions_of(own) for _, own in found) == sum(counts)


def test_a_range_is_not_cut_for_a_few_positions() -> None:
    assert [len(own) for own in in_proportion([Range("a", 0, 102), Range("b", 0, 98)], [1.0, 1.0])] == [1, 1]
