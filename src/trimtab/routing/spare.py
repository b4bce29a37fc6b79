"""The first worker with room in a key's endless row of workers: the heart of PoRC, and so of consistent grouping.

A worker is full when its load is at least (1 + epsilon) times its share of all messages, the one in hand included.
Written as `load * pace >= total`, with `pace = 1 / ((1 + epsilon) * share)`, the left side grows only when the worker
gets a message and the right side only ever grows. So whoever walked past full workers may skip them the next time, as
long as the total has not passed the smallest left side among them. `Memo` keeps that for keys with long walks; a hot
key then walks its row about once a round of all workers, not once a message.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit

from trimtab.routing.hashing import HALF, LOW, UInt64Array, mixed_again, pick
from trimtab.routing.router import Float64Array, Int32Array

_ONE = np.uint64(1)
_PATIENCE = np.uint64(2)  # words (of two workers each) that are looked at before the memo is: most find room sooner
_MEMO_SLOTS = 4096

Memo = tuple[UInt64Array, UInt64Array, Float64Array]
"""Which words have a long walk, how many words of it may be skipped, and up to which total.

It changes no answer, only the time.
"""


def new_memos(sources: int) -> Memo:
    """For each source (the rows of the three) a memo that knows nothing."""
    shape = sources, max(64, _MEMO_SLOTS >> (sources - 1).bit_length())
    return np.zeros(shape, np.uint64), np.zeros(shape, np.uint64), np.zeros(shape)


def pace(shares: Float64Array, epsilon: float) -> Float64Array:
    """By what a load is multiplied to be compared with the number of messages; infinite for a share of 0.

    >>> pace(np.array([0.5, 0.5]), 0.25).tolist()
    [1.6, 1.6]
    """
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / ((1.0 + epsilon) * shares))


@njit(cache=True, nogil=True, inline="always")  # a call that hands over so many arrays costs more than the walk
def first_spare(
    word: np.uint64,
    loads: Float64Array,
    total: float,
    paces: Float64Array,
    thresholds: UInt64Array,
    aliases: Int32Array,
    max_words: np.uint64,
    memo: Memo,
) -> int:
    """The first worker of the row of `word` that is not full; after `max_words` words the least full of all.

    One always is not full: the loads add up to less than `total`.

    loads  (workers,) of this source, without the message in hand; total is their sum with it
    memo   of this source
    """
    worker = pick(word >> HALF, thresholds, aliases)  # the principal worker, which mostly takes it
    if loads[worker] * paces[worker] < total:
        return worker
    words, skips, untils = memo
    slot = word & np.uint64(words.size - 1)
    until = np.inf
    salt = np.uint64(0)
    mixed_word = word
    while salt < max_words:
        worker = pick(mixed_word >> HALF, thresholds, aliases)
        fill = loads[worker] * paces[worker]
        if fill < total:
            break
        until = min(until, fill)
        worker = pick(mixed_word & LOW, thresholds, aliases)
        fill = loads[worker] * paces[worker]
        if fill < total:
            break
        until = min(until, fill)
        salt += _ONE
        if salt == _PATIENCE and words[slot] == word and total <= untils[slot]:
            salt = skips[slot]
            until = min(until, untils[slot])
        mixed_word = mixed_again(word, salt)
    if salt > _PATIENCE:
        words[slot] = word
        skips[slot] = salt
        untils[slot] = until
    if salt >= max_words:
        return _least_full(loads, paces)
    return worker


@njit(cache=True, nogil=True)
def _least_full(loads: Float64Array, paces: Float64Array) -> int:
    best, least = 0, np.inf
    for worker in range(loads.size):
        fill = loads[worker] * paces[worker]  # not a number for a worker of no capacity, and so never less
        if fill < least:
            best, least = worker, fill
    return best
