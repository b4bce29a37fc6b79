"""A seeded stream of synthetic tweets: everyday talk about topics, and stories that break, burst and fade.

A tweet is two to four phrases of three words. Everyday tweets take theirs from one of many topics, each with phrases of
its own, and from phrases that all topics share; topics, phrases and words have Zipf frequencies. A story begins in a
topic with a tweet in words that no tweet had before. While it is hot it attracts tweets: copies, copies with a word or
two replaced, and tweets about it in other words. How many it attracts differs by orders of magnitude, and fades.

A compiled loop with its own random numbers makes one tweet after another, so the stream doesn't depend on how many
tweets `take` is called for. Importing this module imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from trimtab_lab.workloads.fingerprints import fingerprints
from trimtab_lab.workloads.nearest_tweet import Int32Array, Int64Array
from trimtab_lab.workloads.words import terms_of, word

PHRASE = 3
"""Words of a phrase: two tweets of twelve words that share one have a similarity of 0.25."""
FEWEST_PHRASES, MOST_PHRASES = 2, 4
MOST_WORDS = MOST_PHRASES * PHRASE

_HOT = 64  # stories that are hot at the same time; a new one replaces the one that attracts the fewest tweets
_KEPT = 8  # tweets of a story that may be copied
_SLICES = 1 << 16  # equal parts of the unit interval, each with the number that is drawn there
_REFRESH = 256  # tweets between two updates of how strongly stories attract tweets


@dataclass(frozen=True, slots=True)
class World:
    """What the tweets are about.

    With these numbers, a history of 500 and a tau of 0.2, 0.5 % of three million tweets are first stories (the paper:
    0.2 %), more of them while keys are young: 1.3 % of the first 600,000, 0.25 % of the last. The first tweet of every
    story is among them.

    Attributes:
        words: the background vocabulary, with Zipf frequencies.
        phrases: phrases of such words that all tweets share, with Zipf frequencies of the exponent `phrase_zipf`.
        topics: everyday topics, with Zipf shares; each has words and phrases of its own.
        topic_words, topic_phrases: how many of them a topic has; a story brings as many.
        new_stories: the share of tweets with which a story begins.
        hot: the share of tweets that are about stories.
        lasts: after how many tweets of the whole stream, on average, a story attracts 1 / e of what it did.
        copies, edits: shares of a story's tweets that are copies, and copies with a word or two replaced.
    """

    words: int = 20_000
    phrases: int = 500
    phrase_zipf: float = 1.5
    topics: int = 20
    topic_words: int = 30
    topic_phrases: int = 5
    new_stories: float = 0.0001
    hot: float = 0.7
    lasts: float = 100_000.0
    copies: float = 0.95
    edits: float = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Tweets:
    """Some tweets as arrays.

    ids           (n,)      unique over the stream
    numbers       (terms,)  the words of all tweets, one tweet after another
    terms         (terms,)  their hashes
    starts        (n + 1,)  where each tweet's words begin, and where the last one's end
    fingerprints  (n,)      the key of each
    stories       (n,)      the story that each tells of; -1: none
    """

    ids: Int64Array
    numbers: Int64Array
    terms: Int32Array
    starts: Int64Array
    fingerprints: Int32Array
    stories: Int64Array

    def __len__(self) -> int:
        """How many."""
        return len(self.ids)

    def take(self, places: Int64Array) -> Tweets:
        """The tweets at these places, in this order; a place may come more than once."""
        lengths = np.diff(self.starts)[places]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        words = np.arange(starts[-1]) + np.repeat(self.starts[:-1][places] - starts[:-1], lengths)
        return Tweets(
            self.ids[places],
            self.numbers[words],
            self.terms[words],
            starts,
            self.fingerprints[places],
            self.stories[places],
        )

    def texts(self) -> list[str]:
        """The words of each tweet. For people to read: it is slow."""
        word_of = functools.cache(word)
        words = [word_of(number) for number in self.numbers.tolist()]
        starts = self.starts.tolist()
        return [" ".join(words[a:b]) for a, b in itertools.pairwise(starts)]


def concatenated(parts: Sequence[Tweets]) -> Tweets:
    """The tweets of all parts, one part after another; their ids stay as they are."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Tweets(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.terms for part in parts]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([part.fingerprints for part in parts]),
        np.concatenate([part.stories for part in parts]),
    )


@dataclass
class TweetStream:
    """Tweets in the order in which they are written: the same for the same seed and world.

    >>> stream = TweetStream(seed=1)
    >>> first, second = stream.take(2), stream.take(2)
    >>> first.ids.tolist(), second.ids.tolist()
    ([0, 1], [2, 3])
    >>> both = TweetStream(seed=1).take(4)
    >>> both.texts() == first.texts() + second.texts()
    True
    """

    seed: int = 0
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        """Draw the frequencies, and begin without stories."""
        world = self.world
        rng = np.random.default_rng(self.seed)
        everyday = zipf_slices(world.words)[rng.integers(0, _SLICES, (world.phrases, PHRASE))]
        of_topics = zipf_slices(world.topic_words)[rng.integers(0, _SLICES, (world.topic_phrases, PHRASE))]
        self._phrases = (everyday.astype(np.int64), of_topics.astype(np.int64))
        counts = (world.phrases, world.topics, world.topic_phrases, world.words)
        exponents = (world.phrase_zipf, 1.0, 1.0, 1.0)
        self._slices = tuple(zipf_slices(count, exponent) for count, exponent in zip(counts, exponents, strict=True))
        self._shares = np.array([world.new_stories, world.hot, world.lasts, world.copies, world.edits])
        self._sizes = np.array([world.words, world.topics, world.topic_words], np.int64)
        self._counters = np.zeros(2, np.int64)  # tweets and stories so far
        self._random = rng.integers(1, 2**63, 1).astype(np.uint64)
        self._hot = np.zeros(_HOT, HOT_STORY)
        self._pulls = np.zeros(_HOT)

    def take(self, count: int) -> Tweets:
        """The next tweets."""
        first = int(self._counters[0])
        numbers = np.empty(count * MOST_WORDS, np.int64)
        starts = np.zeros(count + 1, np.int64)
        stories = np.empty(count, np.int64)
        _write(
            (self._phrases, self._slices, self._shares, self._sizes),
            self._counters,
            self._random,
            self._hot,
            self._pulls,
            numbers,
            starts,
            stories,
        )
        numbers = numbers[: starts[-1]].copy()
        terms = terms_of(numbers)
        ids = np.arange(first, first + count)
        return Tweets(ids, numbers, terms, starts, fingerprints(terms, starts), stories)


HOT_STORY = np.dtype(
    [
        ("number", np.int64),
        ("topic", np.int64),
        ("began", np.int64),
        ("pull", np.float64),  # how strongly it attracts tweets when it begins; 0: there is no story here
        ("lasts", np.float64),
        ("kept", np.int64),  # how many of its tweets were kept so far
        ("lengths", np.int64, (_KEPT,)),
        ("words", np.int64, (_KEPT, MOST_WORDS)),
    ],
    align=True,
)
"""A story that is hot, with its last tweets."""


def zipf_slices(count: int, exponent: float = 1.0) -> npt.NDArray[np.int32]:
    """For each of many equal parts of the unit interval, a number below `count`: a draw is one array access."""
    shares = np.arange(1, count + 1) ** -exponent
    edges = np.cumsum(shares / shares.sum())
    found = np.searchsorted(edges, (np.arange(_SLICES) + 0.5) / _SLICES)
    return np.minimum(found, count - 1).astype(np.int32)


@njit(cache=True, nogil=True)
def _chance(random):
    """The next random number in [0, 1) (splitmix64, Steele 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.float64(mixed >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def _one_of(slices, random):
    """A number with its Zipf share."""
    return np.int64(slices[int(_chance(random) * slices.size)])


@njit(cache=True, nogil=True)
def _write(world, counters, random, hot, pulls, numbers, starts, stories):
    """Write tweets until the arrays are full."""
    _, slices, shares, _ = world
    for tweet in range(stories.size):
        if counters[0] % _REFRESH == 0:
            _weigh(hot, pulls, counters[0])
        at = starts[tweet]
        luck = _chance(random)
        if luck < shares[0]:
            story = hot[_begin_story(world, counters, random, hot, pulls)]
            end = _tell(world, random, story, _phrases(random), numbers, at)
        elif luck < shares[0] + shares[1] and pulls.sum() > 0.0:
            story = hot[_drawn(pulls, random)]
            end = _repeat(world, random, story, numbers, at)
        else:
            end = _talk(world, random, _one_of(slices[1], random), _phrases(random), numbers, at)
            starts[tweet + 1], stories[tweet] = end, -1
            counters[0] += 1
            continue
        _keep(story, numbers, at, end)
        starts[tweet + 1], stories[tweet] = end, story.number
        counters[0] += 1


@njit(cache=True, nogil=True)
def _phrases(random):
    """How many phrases a tweet has."""
    return FEWEST_PHRASES + int(_chance(random) * (MOST_PHRASES - FEWEST_PHRASES + 1))


@njit(cache=True, nogil=True)
def _talk(world, random, topic, count, numbers, at):
    """Write everyday phrases, of the topic or shared ones; return where they end."""
    phrases, slices, _, sizes = world
    for _ in range(count):
        if _chance(random) < 0.5:
            numbers[at : at + PHRASE] = sizes[0] + topic * sizes[2] + phrases[1][_one_of(slices[2], random)]
        else:
            numbers[at : at + PHRASE] = phrases[0][_one_of(slices[0], random)]
        at += PHRASE
    return at


@njit(cache=True, nogil=True)
def _tell(world, random, story, count, numbers, at):
    """Write phrases in a story's own words; return where they end."""
    phrases, slices, _, sizes = world
    for _ in range(count):
        own = sizes[0] + (sizes[1] + story.number) * sizes[2]
        numbers[at : at + PHRASE] = own + phrases[1][_one_of(slices[2], random)]
        at += PHRASE
    return at


@njit(cache=True, nogil=True)
def _weigh(hot, pulls, now):
    """Compute how strongly each story attracts tweets now."""
    for slot in range(hot.size):
        pulls[slot] = 0.0
        if hot[slot].pull > 0.0:
            pulls[slot] = hot[slot].pull * np.exp(-(now - hot[slot].began) / hot[slot].lasts)


@njit(cache=True, nogil=True)
def _begin_story(world, counters, random, hot, pulls):
    """Replace the weakest story with a new one; return its place."""
    _, slices, shares, _ = world
    slot = np.argmin(pulls)
    story = hot[slot]
    story.number = counters[1]
    story.topic = _one_of(slices[1], random)
    story.began = counters[0]
    # A truncated Pareto distribution: at any time a few stories attract as many tweets as all the others.
    story.pull = min(10_000.0, (1.0 - _chance(random)) ** -2.0)
    story.lasts = -np.log(1.0 - _chance(random)) * shares[2] + _REFRESH
    story.kept = 0
    pulls[slot] = story.pull
    counters[1] += 1
    return slot


@njit(cache=True, nogil=True)
def _drawn(pulls, random):
    """A random story, with a probability in proportion to its pull."""
    left = _chance(random) * pulls.sum()
    for slot in range(pulls.size):
        left -= pulls[slot]
        if left < 0.0:
            return slot
    return np.argmax(pulls)


@njit(cache=True, nogil=True)
def _repeat(world, random, story, numbers, at):
    """Write a copy of one of a story's last tweets, an edited copy, or another tweet about it; return where it ends."""
    _, slices, shares, _ = world
    luck = _chance(random)
    if luck >= shares[3] + shares[4]:
        middle = _tell(world, random, story, 1, numbers, at)
        return _talk(world, random, story.topic, _phrases(random) - 1, numbers, middle)
    chosen = int(_chance(random) * min(story.kept, _KEPT))
    length = story.lengths[chosen]
    numbers[at : at + length] = story.words[chosen, :length]
    if luck >= shares[3]:
        for _ in range(1 + int(_chance(random) * 2)):
            place = at + int(_chance(random) * length)
            numbers[place] = _one_of(slices[3], random)
    return at + length


@njit(cache=True, nogil=True)
def _keep(story, numbers, at, end):
    """Keep a tweet for later copies, in the place of an older one."""
    place = story.kept % _KEPT
    story.lengths[place] = end - at
    story.words[place, : end - at] = numbers[at:end]
    story.kept += 1
