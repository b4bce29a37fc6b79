"""The tweets that are sent: a past that all schemes share, then the default order or the alternating Zipf one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab_lab.experiment import Scale
from trimtab_lab.live.key_groups import salts

if TYPE_CHECKING:
    from trimtab_lab.workloads.tweets import Tweets

Int64Array = npt.NDArray[np.int64]

KEYS = 4_096
KEY_GROUPS = 4_096
ENGINES = 5
HISTORY = 500
SCHEMA = "ts TIMESTAMP, id BIGINT, fingerprint INT, terms ARRAY<INT>, wait_us INT, salt INT"


class Order(Enum):
    """In which order tweets are sent."""

    DEFAULT = "default order"
    ZIPF = "Zipf 0.2 and 1.5 in turn"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is sent.

    past        tweets before the measured part, which cost nothing
    past_files  in how many batches they are sent
    batches     of `tweets` each; under Zipf, `even` of them have even keys, then twice as many skewed ones, repeatedly
    wait_us     what a tweet costs an engine
    """

    past: int
    past_files: int
    batches: int
    tweets: int
    even: int
    wait_us: int


FULL = Size(past=200_000, past_files=4, batches=30, tweets=1_500, even=5, wait_us=800)
REDUCED = Size(past=20_000, past_files=1, batches=6, tweets=1_000, even=2, wait_us=100)


def size_of(scale: Scale) -> Size:
    """How much is sent at this scale."""
    return FULL if scale is Scale.FULL else REDUCED


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """Tweets of a past and of a feed, with PKG's worker for each; ids of the feed continue those of the past."""

    past: Tweets
    feed: Tweets
    size: Size
    pkg_salts: Int64Array

    def tables(self, *, is_past: bool) -> list[pa.Table]:
        """The tweets as files for Spark."""
        from trimtab_lab.workloads.tweet_feeds import as_table

        tweets, begin = (self.past, 0) if is_past else (self.feed, len(self.past))
        cost_us = 0 if is_past else self.size.wait_us
        table = as_table(tweets)
        table = table.append_column("wait_us", pa.array(np.full(len(tweets), cost_us, np.int32)))
        table = table.append_column("salt", pa.array(self.pkg_salts[begin : begin + len(tweets)].astype(np.int32)))
        rows = self.size.past // self.size.past_files if is_past else self.size.tweets
        return [table.slice(first, rows) for first in range(0, len(table), rows)]

    def held(self, batch: int) -> Int64Array:
        """(keys,) tweets that the state holds of each key when a batch of the feed begins."""
        received = np.bincount(self.past.fingerprints, minlength=KEYS)
        received = received + np.bincount(self.feed.fingerprints[: batch * self.size.tweets], minlength=KEYS)
        return np.minimum(received, HISTORY)


@cache
def sent(order: Order, scale: Scale, seed: int) -> Sent:
    """What is sent: the same for the same arguments; the past is the same for both orders."""
    from trimtab_lab.routers.partial_key_grouping import PartialKeyGrouping
    from trimtab_lab.workloads.tweet_feeds import alternating, zipf_feed
    from trimtab_lab.workloads.tweets import TweetStream, World

    size = size_of(scale)
    # A few stories at a time, repeated in the same words: so single keys have a large share for a while, as in the
    # paper (a deviation of 45 % under hashing).
    world = World(new_stories=2e-4, hot=0.35, lasts=60_000.0, copies=0.9995, edits=0.0003)
    stream = TweetStream(seed=seed, world=world)
    past, count = stream.take(size.past), size.batches * size.tweets
    feed = stream.take(count)
    if order is Order.ZIPF:
        feed = zipf_feed(past, alternating(count, size.even * size.tweets), seed=seed)
        feed = dataclasses.replace(feed, ids=feed.ids + size.past)
    keys = np.concatenate([past.fingerprints, feed.fingerprints]).astype(np.int64)
    workers = PartialKeyGrouping(ENGINES, seed=seed).route(keys)
    found = salts(keys, workers, groups=KEY_GROUPS, engines=ENGINES)
    return Sent(past, feed, size, found.astype(np.int64))
