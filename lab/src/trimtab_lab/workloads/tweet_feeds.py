"""Tweets in the order in which they are sent, and files for Spark to read them from.

One order is that in which the tweets were written. The other is the paper's: the key of the next tweet is drawn from a
Zipf distribution whose exponent alternates, and the next tweet with that key is sent.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trimtab_lab.workloads.fingerprints import KEYS, fingerprints
from trimtab_lab.workloads.nearest_tweet import Int64Array
from trimtab_lab.workloads.tweets import Tweets, World, concatenated
from trimtab_lab.workloads.words import terms_of

EVEN, SKEWED = 0.2, 1.5
"""The exponents of Zacheilas et al. (2016), section 4."""
SPARK_SCHEMA = "ts TIMESTAMP, id BIGINT, fingerprint INT, terms ARRAY<INT>"
OPENING = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
APART_US = 1_000
"""Between two tweets of a feed."""

_ODD_TWEETS, _ODD_WORDS = 8 * KEYS, 9


class Phase(NamedTuple):
    """A number of tweets whose keys have Zipf shares of this exponent."""

    exponent: float
    tweets: int


def alternating(tweets: int, even: int) -> list[Phase]:
    """The paper's phases: `even` tweets of nearly even keys, twice as many of skewed ones, and again, up to `tweets`.

    >>> alternating(8, even=2)
    [Phase(exponent=0.2, tweets=2), Phase(exponent=1.5, tweets=4), Phase(exponent=0.2, tweets=2)]
    """
    if even < 1:
        raise ValueError(f"a phase of {even} tweets never ends")
    phases: list[Phase] = []
    while tweets > 0:
        skewed = len(phases) % 2 == 1
        count = min(tweets, 2 * even if skewed else even)
        phases.append(Phase(SKEWED if skewed else EVEN, count))
        tweets -= count
    return phases


def with_every_key(tweets: Tweets, seed: int = 0) -> Tweets:
    """The tweets, then one of random words for each of the 4,096 keys that none of them has."""
    rng = np.random.default_rng(seed)
    parts, missing = [tweets], np.bincount(tweets.fingerprints, minlength=KEYS) == 0
    while missing.any():
        numbers = rng.integers(0, World().words, _ODD_TWEETS * _ODD_WORDS)
        starts = np.arange(0, len(numbers) + 1, _ODD_WORDS)
        terms = terms_of(numbers)
        keys, firsts = np.unique(fingerprints(terms, starts), return_index=True)
        nothing = np.full(_ODD_TWEETS, -1)
        drawn = Tweets(nothing, numbers, terms, starts, fingerprints(terms, starts), nothing)
        parts.append(drawn.take(firsts[missing[keys]]))
        missing[keys] = False
    if len(parts) == 1:
        return tweets
    whole = concatenated(parts)
    return dataclasses.replace(whole, ids=np.arange(len(whole)))


def zipf_feed(pool: Tweets, phases: Sequence[Phase], seed: int = 0) -> Tweets:
    """Tweets whose keys are drawn, phase by phase, from the keys that the pool has (see `with_every_key`).

    Which keys are frequent is drawn once, for all phases. The pool's tweets of a key are sent in their order, and from
    the first one again when they are used up. Ids count from 0: a tweet that is sent twice gets two ids.
    """
    sizes = np.bincount(pool.fingerprints, minlength=KEYS)
    rng = np.random.default_rng(seed)
    keys = rng.permutation(np.flatnonzero(sizes))
    drawn = np.concatenate([keys[_ranks(phase, len(keys), rng)] for phase in phases])
    firsts = np.cumsum(sizes) - sizes
    by_key = np.argsort(pool.fingerprints, kind="stable")
    sent = pool.take(by_key[firsts[drawn] + _earlier(drawn) % sizes[drawn]])
    return dataclasses.replace(sent, ids=np.arange(len(drawn)))


def _ranks(phase: Phase, keys: int, rng: np.random.Generator) -> Int64Array:
    edges = np.cumsum(np.arange(1, keys + 1) ** -phase.exponent)
    ranks: Int64Array = np.searchsorted(edges, rng.random(phase.tweets) * edges[-1], side="right")
    return ranks


def _earlier(values: Int64Array) -> Int64Array:
    """For each value, how many equal ones come before it.

    >>> _earlier(np.array([4, 7, 4, 4, 7])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    found = np.empty(len(values), np.int64)
    found[order] = np.arange(len(values)) - np.repeat(begins, np.diff(np.r_[begins, len(values)]))
    return found


def as_table(tweets: Tweets, *, text: bool = False) -> pa.Table:
    """Tweets as columns `ts`, `id`, `fingerprint`, `terms` and, if wanted, `text`; times are a millisecond apart."""
    opening_us = round(OPENING.timestamp() * 1_000_000)
    terms = pa.ListArray.from_arrays(pa.array(tweets.starts, pa.int32()), pa.array(tweets.terms, pa.int32()))
    columns = {
        "ts": pa.array(opening_us + tweets.ids * APART_US, pa.timestamp("us", "UTC")),
        "id": pa.array(tweets.ids, pa.int64()),
        "fingerprint": pa.array(tweets.fingerprints, pa.int32()),
        "terms": terms,
    }
    if text:
        columns["text"] = pa.array(tweets.texts(), pa.string())
    return pa.table(columns)


def write_feed(folder: pathlib.Path, tweets: Tweets, tweets_per_file: int, *, text: bool = False) -> list[pathlib.Path]:
    """Write tweets as parquet files, one per batch; a later call adds files after them.

    Spark's file stream reads them in order: each is a second newer than the one before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.parquet")))
    files: list[pathlib.Path] = []
    for first in range(0, len(tweets), tweets_per_file):
        part = tweets.take(np.arange(first, min(first + tweets_per_file, len(tweets))))
        file = folder / f"{number + len(files):06d}.parquet"
        unfinished = folder / f"_{file.name}"  # Spark ignores files whose names start with "_"
        # Two row groups, so that two cores can read a file.
        pq.write_table(as_table(part, text=text), unfinished, row_group_size=max(1, -(-len(part) // 2)))
        modified_s = OPENING.timestamp() + number + len(files)
        os.utime(unfinished, (modified_s, modified_s))
        unfinished.rename(file)
        files.append(file)
    return files
