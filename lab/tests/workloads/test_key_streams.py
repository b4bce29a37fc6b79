"""Streams have the shape that they claim."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.errors import BalanceError
from trimtab_lab.workloads import key_streams
from trimtab_lab.workloads.key_streams import Shape, keys_of, twitter_like, wikipedia_like, zipf_keys


def test_the_same_seed_gives_the_same_stream() -> None:
    assert (zipf_keys(1000, 50, 1.0, seed=1) == zipf_keys(1000, 50, 1.0, seed=1)).all()
    assert (zipf_keys(1000, 50, 1.0, seed=1) != zipf_keys(1000, 50, 1.0, seed=2)).any()


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.4, 2.0])
@pytest.mark.parametrize("keys", [1, 2, 1000, 100_000])
def test_frequencies_follow_zipf(keys: int, exponent: float) -> None:
    messages = 400_000
    stream = zipf_keys(messages, keys, exponent, seed=3)
    assert stream.min() >= 0
    assert stream.max() < keys
    shares = np.arange(1, keys + 1) ** -exponent
    shares /= shares.sum()
    found = np.sort(np.bincount(stream, minlength=keys))[::-1] / messages
    # Sums over ranks: the first, the first ten and so on; sorting what was drawn makes a long flat tail look steeper.
    for first in (1, 10, 100):
        if messages * shares[min(first, keys) - 1] > 500:
            assert found[:first].sum() == pytest.approx(shares[:first].sum(), rel=0.03)
    seen = -np.expm1(-messages * shares)
    assert np.count_nonzero(found) == pytest.approx(seen.sum(), abs=1 + 4 * (seen * (1 - seen)).sum() ** 0.5)


def test_the_tail_without_a_table_goes_on_as_the_table_does(monkeypatch: pytest.MonkeyPatch) -> None:
    tabled = keys_of(Shape(20_000, 0.9, 1.5), 300_000, seed=1)
    monkeypatch.setattr(key_streams, "_TABLE", 500)
    inverted = keys_of(Shape(20_000, 0.9, 1.5), 300_000, seed=1)
    # Both invert the same distribution at the same numbers, so they differ only where two ranks meet.
    assert np.mean(tabled != inverted) < 1e-4


def test_numbers_of_keys_do_not_show_their_rank() -> None:
    counts = np.bincount(zipf_keys(200_000, 1000, 1.0, seed=4), minlength=1000)
    ranks = np.argsort(np.argsort(-counts))
    assert abs(np.corrcoef(ranks, np.arange(1000))[0, 1]) < 0.1


def test_wikipedia_has_its_published_figures() -> None:
    stream = wikipedia_like(2_000_000, seed=1)
    counts = np.bincount(stream)
    assert counts.max() / stream.size == pytest.approx(0.0932, abs=0.001)
    shares = _shares(key_streams.WIKIPEDIA)
    assert np.count_nonzero(counts) == pytest.approx(-np.expm1(-2e6 * shares).sum(), rel=0.01)
    assert -np.expm1(-22e6 * shares).sum() == pytest.approx(2.9e6, rel=0.005)


def test_twitter_has_its_published_figures() -> None:
    _, counts = np.unique(twitter_like(1_000_000, seed=1), return_counts=True)
    assert counts.max() / 1_000_000 == pytest.approx(0.0267, abs=0.001)
    ranks = np.concatenate([np.arange(1, 1001), np.arange(1500, key_streams.TWITTER.keys, 1000)])  # each for a thousand
    stands_for = np.where(ranks <= 1000, 1, 1000)
    shares = (ranks + key_streams.TWITTER.offset) ** -key_streams.TWITTER.exponent
    shares /= (shares * stands_for).sum()
    assert shares[0] == pytest.approx(0.0267, abs=1e-4)
    assert (-np.expm1(-1.2e9 * shares) * stands_for).sum() == pytest.approx(31e6, rel=0.005)


def test_no_messages_are_no_messages_and_nonsense_is_refused() -> None:
    assert zipf_keys(0, 10).size == 0
    for messages, keys, exponent in ((-1, 10, 1.0), (1, 0, 1.0), (1, 10, -1.0)):
        with pytest.raises(BalanceError, match=r"route\.option"):
            zipf_keys(messages, keys, exponent)


def _shares(shape: Shape) -> np.typing.NDArray[np.float64]:
    shares = (np.arange(1, shape.keys + 1) + shape.offset) ** -shape.exponent
    if shape.top_share is not None:
        shares[0] = shares[1:].sum() * shape.top_share / (1 - shape.top_share)
    return np.asarray(shares / shares.sum())
