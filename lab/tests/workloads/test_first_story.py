"""First story detection: the kernel agrees with its plain twin, and cuts and snapshots don't change the answer."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab
from trimtab_lab.workloads.first_story import FirstStory, LastTweets
from trimtab_lab.workloads.nearest_tweet import nearest_similarities

Tweet = list[int]

# Few different terms, so that tweets share some and repeat some; some are the largest and smallest possible.
terms = st.one_of(st.integers(-3, 6), st.sampled_from([-(2**31), 2**31 - 1, 1 << 20, 5 << 20]))
tweets = st.lists(st.lists(terms, max_size=8), max_size=25)


def cosine(left: Tweet, right: Tweet) -> float:
    """The plain twin of what the kernel computes for two tweets."""
    here, there = collections.Counter(left), collections.Counter(right)
    product = sum(count * there[term] for term, count in here.items())
    squares = [sum(count**2 for count in each.values()) for each in (here, there)]
    return product / math.sqrt(squares[0] * squares[1])


def plain_stories(tweets: Sequence[Tweet], history: int, tau: float) -> list[tuple[int, float, int]]:
    """Which tweets are first stories, with the largest similarity and how many tweets they were compared with."""
    last: collections.deque[Tweet] = collections.deque(maxlen=history)
    found = []
    for number, tweet in enumerate(tweets):
        if not tweet:
            continue
        largest = max((cosine(tweet, each) for each in last), default=0.0)
        if largest <= tau:
            found.append((number, largest, len(last)))
        last.append(tweet)
    return found


def rows(tweets: Sequence[Tweet | None], first: int = 0) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, first + len(tweets)), pa.int64()), "terms": pa.array(tweets, pa.list_(pa.int32()))}
    )


def stories(description: FirstStory, tweets: Sequence[Tweet], cuts: Sequence[int] = ()) -> list[tuple[Any, ...]]:
    """The output, when only the snapshot is kept between two calls."""
    whole, snapshot, found = rows(tweets), None, []
    for begin, end in itertools.pairwise([0, *sorted(cuts), len(tweets)]):
        if begin == end:
            continue
        logic = description.open(snapshot)
        given_rows = logic.on_rows(whole.slice(begin, end - begin))
        found += [] if given_rows is None else [tuple(row.values()) for row in given_rows.to_pylist()]
        snapshot = logic.snapshot()
    return found


@pytest.mark.slow  # compiles the kernel
@given(tweets, st.integers(1, 6), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.booleans())
def test_the_kernel_agrees_with_its_plain_twin(tweets: list[Tweet], history: int, tau: float, exhaustive: bool) -> None:
    description = FirstStory(history=history, tau=tau, exhaustive=exhaustive)
    assert stories(description, tweets) == plain_stories(tweets, history, tau)


@given(st.lists(st.lists(terms, min_size=1, max_size=80), min_size=1, max_size=8))
def test_without_a_limit_the_largest_similarity_is_exact(tweets: list[Tweet]) -> None:
    flat = np.array(list(itertools.chain(*tweets)), np.int32)
    starts = np.cumsum([0, *(len(tweet) for tweet in tweets)])
    largest, compared = nearest_similarities(flat, starts, 0, 500, 2.0)
    expected = [max((cosine(tweet, each) for each in tweets[:i]), default=0.0) for i, tweet in enumerate(tweets)]
    assert largest.tolist() == expected
    assert compared.tolist() == list(range(len(tweets)))


@given(tweets, st.lists(st.integers(0, 25), max_size=5), st.integers(1, 6))
def test_cuts_do_not_change_the_answer(tweets: list[Tweet], cuts: list[int], history: int) -> None:
    description = FirstStory(history=history)
    inside = [min(cut, len(tweets)) for cut in cuts]
    assert stories(description, tweets, inside) == stories(description, tweets)


@settings(max_examples=25)  # each runs two queries
@given(tweets, st.lists(st.integers(0, 25), max_size=3))
def test_in_sql_each_key_has_its_own_history(tweets: list[Tweet], cuts: list[int]) -> None:
    table = rows(tweets).append_column("k", pa.array([i % 2 for i in range(len(tweets))], pa.int64()))
    query = (
        "SELECT k, id, compared FROM first_story(TABLE(tweets) PARTITION BY k ORDER BY id, history => 3, tau => 0.3)"
    )
    inside = sorted({min(cut, len(tweets)) for cut in cuts})
    expected = [
        {"k": key, "id": 2 * number + key, "compared": compared}
        for key in (0, 1)
        for number, _, compared in plain_stories(tweets[key::2], 3, 0.3)
    ]
    for where in ([], inside):
        found = trimtab.evaluate(query, {"tweets": table}, cuts=where).to_pylist()
        assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_snapshot_holds_the_last_tweets_in_six_bytes_and_less_a_term() -> None:
    logic = FirstStory(history=2).open(None)
    assert logic.snapshot() is None
    logic.on_rows(rows([[5, 5, 5, 5], [3, -1, 2], [9]]))
    snapshot = logic.snapshot()
    assert snapshot is not None
    assert np.frombuffer(snapshot["terms"], "<i4").tolist() == [-1, 2, 3, 9]
    assert np.frombuffer(snapshot["lengths"], "<u2").tolist() == [3, 1]
    stored = pa.array([dict(snapshot)], pa.struct(list(FirstStory.state))).to_pylist()[0]
    assert FirstStory(history=2).open(stored) == LastTweets(FirstStory(history=2), **snapshot)


def test_tweets_without_terms_are_skipped() -> None:
    logic = FirstStory().open(None)
    assert logic.on_rows(rows([None, []])) is None
    assert logic.snapshot() is None
    found = logic.on_rows(rows([[], [1], None, [2], [1, 2]], first=7))
    assert found is not None
    assert found.to_pylist() == [
        {"id": 8, "similarity": 0.0, "compared": 0},
        {"id": 10, "similarity": 0.0, "compared": 1},
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1, None]], pa.list_(pa.int32())), "null"),
        (pa.array([[1]], pa.list_(pa.int64())), r"has to be array<int>"),
        (pa.array([[0] * 70_000], pa.list_(pa.int32())), "65,535 terms"),
    ],
)
def test_terms_that_cannot_be_kept_are_refused(column: pa.Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FirstStory().open(None).on_rows(pa.table({"id": pa.array([1], pa.int64()), "terms": column}))


@pytest.mark.parametrize("wrong", [{"history": 0}, {"wait_us": -1.0}])
def test_arguments_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is"):
        FirstStory(**wrong)


def test_the_simulated_cost_is_slept_once_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    FirstStory(wait_us=50.0).open(None).on_rows(rows([[1], [2], [3]]))
    FirstStory().open(None).on_rows(rows([[1]]))
    assert slept == [pytest.approx(150e-6)]
