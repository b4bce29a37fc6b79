"""Seeded streams of keys with heavy tails: Zipf, and two that look like the data sets of the papers.

The most frequent ranks are in a table; the long tail is drawn by inverting the integral, which differs from the sum by
less than 1e-9 of a rank's share there. A seeded permutation turns ranks into key numbers, so that a number doesn't
show its rank. Tens of millions of keys take a second, and only the memory of the result.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import checked_option
from trimtab_lab.routers.hashing import GOLDEN, mix, seed_word
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array

_TABLE = 1 << 15
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Shape:
    """How frequent keys are: the one of rank r has a share in proportion to (r + offset) ** -exponent.

    Attributes:
        keys: how many different keys there are to draw from.
        exponent: the skew; 0 is even.
        offset: flattens the head, as for words in texts (Mandelbrot).
        top_share: the share of rank 1, set apart from the others; None: by the formula.
    """

    keys: int
    exponent: float
    offset: float = 0.0
    top_share: float | None = None


WIKIPEDIA = Shape(keys=3_975_000, exponent=0.9, top_share=0.0932)
"""Page views (WP): 22 M messages of this shape have 2.9 M different keys, and 9.32 % of them are of one."""

TWITTER = Shape(keys=31_850_000, exponent=1.0, offset=1.242)
"""Words of tweets (TW): 1.2 G messages of this shape have 31 M different keys, and 2.67 % of them are of one."""


def zipf_keys(messages: int, keys: int = 100_000, exponent: float = 1.0, seed: int = 0) -> Int64Array:
    """Keys from 0 to `keys` - 1 by Zipf's law.

    >>> stream = zipf_keys(100_000, 1000, 1.0, seed=1)
    >>> shares = np.sort(np.bincount(stream, minlength=1000))[::-1] / stream.size
    >>> [round(float(share), 2) for share in shares[:3]]  # 1, 1/2 and 1/3 of 1 / (1 + 1/2 + ... + 1/1000)
    [0.13, 0.07, 0.04]
    """
    return keys_of(Shape(keys, exponent), messages, seed)


def wikipedia_like(messages: int = 22_000_000, seed: int = 0) -> Int64Array:
    """A stream with the published figures of WP: 22 M page views of 2.9 M pages, 9.32 % of one (Nasir 2017, Table I).

    Only these figures are Wikipedia's; the rest of the shape is Zipf's law with an exponent of 0.9.

    >>> stream = wikipedia_like(200_000, seed=1)
    >>> round(float(np.bincount(stream).max() / stream.size), 2)
    0.09
    """
    return keys_of(WIKIPEDIA, messages, seed)


def twitter_like(messages: int = 20_000_000, seed: int = 0) -> Int64Array:
    """A stream with the published figures of TW: of 1.2 G words 31 M differ, and one has 2.67 % (Nasir 2017, Table I).

    Only these figures are Twitter's; the rest of the shape is Zipf's law for words (Mandelbrot's form of it).

    >>> stream = twitter_like(200_000, seed=1)
    >>> _, counts = np.unique(stream, return_counts=True)
    >>> round(float(counts.max() / stream.size), 3)
    0.027
    """
    return keys_of(TWITTER, messages, seed)


def keys_of(shape: Shape, messages: int, seed: int = 0) -> Int64Array:
    """Draw a stream of any shape."""
    checked_option("messages", messages, 0)
    checked_option("keys", shape.keys, 1)
    checked_option("exponent", shape.exponent, 0)
    ends, tail_from, tail_to = _table(shape)
    guide = np.searchsorted(ends, np.arange(ends.size) / ends.size, side="right").astype(np.int32)
    scramble = np.uint64(seed_word(seed, purpose=3))
    rng = np.random.default_rng(seed)
    stream = np.empty(messages, np.int64)
    for start in range(0, messages, _CHUNK):
        part = stream[start : start + _CHUNK]
        _draw(rng.random(part.size), part, ends, guide, shape.keys, shape.exponent, shape.offset, tail_from, tail_to)
        _scramble(part, shape.keys, scramble)
    return stream


def _table(shape: Shape) -> tuple[Float64Array, float, float]:
    """Where each rank of the table ends in [0, 1), and the tail's integral from its start to its end."""
    ranks = np.arange(1, min(shape.keys, _TABLE) + 1)
    shares = (ranks + shape.offset) ** -shape.exponent
    tail_from = _integral(ranks.size + 0.5 + shape.offset, shape.exponent)
    tail_to = _integral(shape.keys + 0.5 + shape.offset, shape.exponent)
    if shape.top_share is not None and shape.keys > 1:
        others = shares[1:].sum() + (tail_to - tail_from)
        shares[0] = others * shape.top_share / (1 - shape.top_share)
    ends = np.cumsum(shares)
    ends /= ends[-1] + (tail_to - tail_from)
    if ranks.size == shape.keys:
        ends[-1] = 1.0
    return ends, tail_from, tail_to


@kernel
def _integral(x: float, exponent: float) -> float:
    if exponent == 1.0:
        return float(np.log(x))
    return float(x ** (1.0 - exponent) / (1.0 - exponent))


@kernel
def _inverse(area: float, exponent: float) -> float:
    if exponent == 1.0:
        return float(np.exp(area))
    return float((area * (1.0 - exponent)) ** (1.0 / (1.0 - exponent)))


@kernel
def _draw(
    uniform: Float64Array,
    ranks: Int64Array,
    ends: Float64Array,
    guide: Int32Array,
    keys: int,
    exponent: float,
    offset: float,
    tail_from: float,
    tail_to: float,
) -> None:
    """Ranks from 0 on, by inverting the distribution; `guide` has the index of the table at which to begin."""
    head = ends[-1]
    for i in range(uniform.size):
        u = uniform[i]
        if u < head:
            rank = int(guide[int(u * guide.size)])
            while ends[rank] <= u:
                rank += 1
        else:
            area = tail_from + (u - head) / (1.0 - head) * (tail_to - tail_from)
            rank = int(_inverse(area, exponent) - offset - 0.5)
            rank = min(max(rank, ends.size), keys - 1)
        ranks[i] = rank


@kernel
def _scramble(ranks: Int64Array, keys: int, seed: np.uint64) -> None:
    """Replace ranks by key numbers: a permutation below the next power of two, repeated while the result is too large.

    Four rounds of a Feistel network over the number's two halves, of which one may be a bit longer.
    """
    bits = 1
    while (1 << bits) < keys:
        bits += 1
    low_bits = np.uint64(bits // 2)
    high_bits = np.uint64(bits - bits // 2)
    low_mask = (np.uint64(1) << low_bits) - np.uint64(1)
    high_mask = (np.uint64(1) << high_bits) - np.uint64(1)
    for i in range(ranks.size):
        number = np.uint64(ranks[i])
        while True:
            high, low = number >> low_bits, number & low_mask
            for turn in range(2):
                salt = seed + np.uint64(turn) * GOLDEN
                high ^= mix(low + salt) & high_mask
                low ^= mix(high ^ salt) & low_mask
            number = (high << low_bits) | low
            if number < np.uint64(keys):
                break
        ranks[i] = np.int64(number)
