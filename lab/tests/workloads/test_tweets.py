"""The synthetic tweets: the same for the same seed, skewed, with bursts; and similar tweets share keys."""

from __future__ import annotations

import pathlib
import zlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from trimtab_lab.workloads.fingerprints import KEYS, fingerprints
from trimtab_lab.workloads.tweet_feeds import Phase, alternating, as_table, with_every_key, write_feed, zipf_feed
from trimtab_lab.workloads.tweets import FEWEST_PHRASES, MOST_WORDS, PHRASE, Tweets, TweetStream

COUNT = 60_000


@pytest.fixture(scope="module")
def written() -> Tweets:
    return TweetStream(seed=1).take(COUNT)


def same(left: Tweets, right: Tweets) -> bool:
    return bool(as_table(left).equals(as_table(right)))


def test_the_stream_depends_on_the_seed_and_not_on_how_many_are_taken_at_once(written: Tweets) -> None:
    stream = TweetStream(seed=1)
    for begin, end in ((0, 1), (1, 700), (700, 1000)):
        assert same(stream.take(end - begin), written.take(np.arange(begin, end)))
    assert not same(TweetStream(seed=2).take(1000), written.take(np.arange(1000)))


def test_tweets_have_a_few_words_and_an_id_of_their_own(written: Tweets) -> None:
    lengths = np.diff(written.starts)
    assert lengths.min() == FEWEST_PHRASES * PHRASE
    assert lengths.max() == MOST_WORDS
    assert len(np.unique(written.ids)) == COUNT
    assert written.fingerprints.min() >= 0
    assert written.fingerprints.max() < KEYS


def test_terms_are_the_checksums_of_the_words(written: Tweets) -> None:
    few = written.take(np.arange(50))
    words = [word for text in few.texts() for word in text.split()]
    assert [zlib.crc32(word.encode()) for word in words] == (few.terms.astype(np.int64) & 0xFFFFFFFF).tolist()


def test_stories_begin_all_the_time_and_some_attract_most_tweets(written: Tweets) -> None:
    since = written.stories[np.argmax(written.stories >= 0) :]
    of_stories = since[since >= 0]
    assert len(of_stories) / len(since) == pytest.approx(0.7, abs=0.03)
    numbers, firsts, counts = np.unique(of_stories, return_index=True, return_counts=True)
    assert numbers.tolist() == list(range(len(numbers))), "they are counted as they begin"
    assert (np.diff(firsts) > 0).all()
    assert len(numbers) >= 3
    assert counts.max() > 3 * np.median(counts)


def test_a_story_bursts_and_fades() -> None:
    stories = TweetStream(seed=3).take(300_000).stories
    hottest = np.bincount(stories[stories >= 0]).argmax()
    shares = (stories.reshape(30, -1) == hottest).mean(axis=1)
    assert shares.max() > 5 * shares[-1] + 0.1


def test_a_storys_tweets_are_mostly_near_copies(written: Tweets) -> None:
    of_stories = np.flatnonzero(written.stories >= 0)
    texts = written.take(of_stories).texts()
    assert len(set(texts)) < 0.2 * len(texts)


def test_keys_are_many_and_skewed(written: Tweets) -> None:
    counts = np.bincount(written.fingerprints, minlength=KEYS)
    assert (counts > 0).mean() > 0.5
    assert counts.max() > 50 * counts.mean()


def test_a_pool_has_every_key(written: Tweets) -> None:
    pool = with_every_key(written)
    assert len(np.unique(written.fingerprints)) < KEYS == len(np.unique(pool.fingerprints))
    assert same(pool.take(np.arange(COUNT)), written), "the others come after them"
    assert len(pool) == COUNT + KEYS - len(np.unique(written.fingerprints))
    assert pool.fingerprints.tolist() == fingerprints(pool.terms, pool.starts).tolist()
    assert with_every_key(pool) is pool


def with_words_replaced(tweets: Tweets, rng: np.random.Generator) -> Tweets:
    """Tweets in which one word of each is replaced."""
    places = tweets.starts[:-1] + (rng.random(len(tweets)) * np.diff(tweets.starts)).astype(np.int64)
    terms = tweets.terms.copy()
    terms[places] = rng.integers(-(2**31), 2**31, len(tweets)).astype(np.int32)
    keys = fingerprints(terms, tweets.starts)
    return Tweets(tweets.ids, tweets.numbers, terms, tweets.starts, keys, tweets.stories)


def test_near_duplicates_share_keys_far_more_often_than_others(written: Tweets) -> None:
    rng = np.random.default_rng(5)
    near = (with_words_replaced(written, rng).fingerprints == written.fingerprints).mean()
    strangers = rng.integers(-(2**31), 2**31, COUNT * 8).astype(np.int32)
    keys = fingerprints(strangers, np.arange(0, len(strangers) + 1, 8))
    far = (keys[1:] == keys[:-1]).mean()
    # One word of six to twelve differs: cosines of 0.83 to 0.92, so 0.09 to 0.18 share a key; of others, 1 / 4096.
    assert 0.08 < near < 0.2
    assert far < 0.001


def test_the_order_of_words_does_not_matter_to_the_key(written: Tweets) -> None:
    backwards = fingerprints(written.terms[::-1].copy(), written.starts[-1] - written.starts[::-1])
    assert backwards[::-1].tolist() == written.fingerprints.tolist()


def test_the_zipf_feed_alternates_and_keeps_the_order_within_a_key(written: Tweets) -> None:
    even, skewed = 20_000, 40_000
    sent = zipf_feed(written, alternating(even + skewed, even), seed=2)
    assert same(sent, zipf_feed(written, alternating(even + skewed, even), seed=2))
    assert sent.ids.tolist() == list(range(even + skewed))
    flat, steep = np.bincount(sent.fingerprints[:even]), np.bincount(sent.fingerprints[even:])
    keys = len(np.unique(written.fingerprints))
    assert steep.max() / skewed == pytest.approx(1 / (np.arange(1, keys + 1) ** -1.5).sum(), rel=0.05)
    assert flat.max() < 5 * even / keys + 10
    key = int(steep.argmax())
    of_pool = written.take(np.flatnonzero(written.fingerprints == key)).texts()
    of_feed = sent.take(np.flatnonzero(sent.fingerprints == key)).texts()
    assert of_feed == [of_pool[i % len(of_pool)] for i in range(len(of_feed))]


def test_a_feed_is_files_in_order_of_time(written: Tweets, tmp_path: pathlib.Path) -> None:
    sent = zipf_feed(written, [Phase(0.2, 25)])
    files = write_feed(tmp_path, sent.take(np.arange(12)), 5, text=True)
    files += write_feed(tmp_path, sent.take(np.arange(12, 25)), 10, text=True)
    assert [file.name for file in files] == [f"{i:06d}.parquet" for i in range(5)]
    assert sorted(file.stat().st_mtime for file in files) == [file.stat().st_mtime for file in files]
    assert len({file.stat().st_mtime for file in files}) == 5
    tables = [pq.read_table(file) for file in files]
    assert [table.num_rows for table in tables] == [5, 5, 2, 10, 3]
    times = [time for table in tables for time in table["ts"].to_pylist()]
    assert times == sorted(set(times))
    assert [text for table in tables for text in table["text"].to_pylist()] == sent.texts()
    assert [key for table in tables for key in table["fingerprint"].to_pylist()] == sent.fingerprints.tolist()
