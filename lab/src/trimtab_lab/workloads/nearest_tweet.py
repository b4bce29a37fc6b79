"""The exact cosine similarity of each new tweet to those before it, by term frequencies, compiled by Numba.

All terms are in one array, tweet after tweet, those of known tweets before those of new ones. Importing this module
imports Numba.
"""

# mypy: disable-error-code="no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_FEWEST_PLACES = 64
_MOST_TERMS = 65_535  # the largest number of two bytes


@njit(cache=True, nogil=True)
def compare(
    terms: Int32Array,
    lengths: npt.NDArray[np.uint16],
    new_terms: Int32Array,
    offsets: Int32Array,
    history: int,
    tau: float,
    enough: float,
) -> tuple[Int32Array, npt.NDArray[np.uint16], Int64Array, FloatArray, Int64Array]:
    """The last tweets after some new ones, and the new ones whose similarity to those before is at most `tau`.

    terms, lengths       of the known tweets: see `nearest_similarities`
    new_terms, offsets   of the new ones, as Arrow has them: the terms of tweet i are new_terms[offsets[i]:offsets[i+1]]

    Tweets without terms are skipped. Returns terms and lengths of the last `history` tweets, and the indices of the new
    tweets that are reported, with their largest similarity and the number of tweets that they were compared with.
    """
    known, new = lengths.size, offsets.size - 1
    places = np.empty(new, np.int64)
    starts = np.zeros(known + new + 1, np.int64)
    for i in range(known):
        starts[i + 1] = starts[i] + lengths[i]
    tweets = known
    for i in range(new):
        length = offsets[i + 1] - offsets[i]
        if length > _MOST_TERMS:
            raise ValueError("a tweet has more than 65,535 terms")
        if length > 0:
            places[tweets - known] = i
            starts[tweets + 1] = starts[tweets] + length
            tweets += 1
    every = np.empty(starts[tweets], np.int32)
    every[: terms.size] = terms
    every[terms.size :] = new_terms[offsets[0] : offsets[new]]  # tweets without terms take no room
    largest, compared = nearest_similarities(every, starts[: tweets + 1], known, history, enough)
    reported = np.flatnonzero(largest <= tau)
    first = max(0, tweets - history)
    kept = np.empty(tweets - first, np.uint16)
    for i in range(first, tweets):
        kept[i - first] = starts[i + 1] - starts[i]
    return every[starts[first] :], kept, places[reported], largest[reported], compared[reported]


@njit(cache=True, nogil=True)
def nearest_similarities(
    terms: Int32Array, starts: Int64Array, known: int, history: int, enough: float
) -> tuple[FloatArray, Int64Array]:
    """The largest similarity of each new tweet to the last `history` ones before it, and how many it was compared with.

    terms   (starts[-1],)  of all tweets; sorted within known tweets, and sorted here within new ones
    starts  (n + 1,)       where each tweet's terms begin; every tweet has terms
    known                  how many of the tweets are known ones
    enough                 the search goes backwards and ends at the first similarity above this, which is returned

    A similarity is the dot product of two vectors of term counts over the root of the product of their squares. All
    sums are of integers, so the order of terms makes no difference.
    """
    tweets = starts.size - 1
    largest = np.zeros(tweets - known)
    compared = np.zeros(tweets - known, np.int64)
    squares = np.zeros(tweets, np.int64)  # 0: not computed yet; most are never needed
    places = _FEWEST_PLACES
    owners = np.full(places, -1, np.int64)  # a hash table of the new tweet's terms: the first index of each in `terms`
    counts = np.zeros(places, np.int64)
    for new in range(known, tweets):
        begin, end = starts[new], starts[new + 1]
        _sort(terms, begin, end)
        if 4 * (end - begin) > places:
            while 4 * (end - begin) > places:
                places *= 2
            owners, counts = np.full(places, -1, np.int64), np.zeros(places, np.int64)
        own = _fill(terms, begin, end, owners, counts)
        squares[new] = own
        best = 0.0
        for old in range(new - 1, max(-1, new - history - 1), -1):
            compared[new - known] += 1
            product = _product(terms, starts[old], starts[old + 1], owners, counts)
            if product == 0:
                continue
            if squares[old] == 0:
                squares[old] = _square(terms, starts[old], starts[old + 1])
            best = max(best, product / np.sqrt(np.float64(own) * np.float64(squares[old])))
            if best > enough:
                break
        largest[new - known] = best
        _clear(terms, begin, end, owners)
    return largest, compared


@njit(cache=True, nogil=True)
def _sort(terms, begin, end):  # type: ignore[no-untyped-def]
    """Sort `terms[begin:end]` by insertion: tweets are short."""
    for i in range(begin + 1, end):
        term = terms[i]
        j = i
        while j > begin and terms[j - 1] > term:
            terms[j] = terms[j - 1]
            j -= 1
        terms[j] = term


@njit(cache=True, nogil=True)
def _place(term, mask):  # type: ignore[no-untyped-def]
    """Where in a table whose size is a power of two the search for a term begins (Fibonacci hashing)."""
    return ((np.uint64(np.uint32(term)) * np.uint64(2654435769)) >> np.uint64(20)) & mask


@njit(cache=True, nogil=True)
def _fill(terms, begin, end, owners, counts):  # type: ignore[no-untyped-def]
    """Insert the terms of a sorted tweet with their counts; return the sum of the squared counts."""
    mask = np.uint64(owners.size - 1)
    square, first = 0, begin
    while first < end:
        last = first
        while last < end and terms[last] == terms[first]:
            last += 1
        place = _place(terms[first], mask)
        while owners[place] >= 0:
            place = (place + np.uint64(1)) & mask
        owners[place], counts[place] = first, last - first
        square += (last - first) ** 2
        first = last
    return square


@njit(cache=True, nogil=True)
def _clear(terms, begin, end, owners):  # type: ignore[no-untyped-def]
    """Remove the terms of a tweet from the table."""
    mask = np.uint64(owners.size - 1)
    for i in range(begin, end):
        place = _place(terms[i], mask)
        while owners[place] >= 0:
            owners[place] = -1
            place = (place + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def _product(terms, begin, end, owners, counts):  # type: ignore[no-untyped-def]
    """The dot product of a tweet's counts with those in the table: each occurrence of a term adds the table's count."""
    mask = np.uint64(owners.size - 1)
    total = 0
    for i in range(begin, end):
        place = _place(terms[i], mask)
        while owners[place] >= 0:
            if terms[owners[place]] == terms[i]:
                total += counts[place]
                break
            place = (place + np.uint64(1)) & mask
    return total


@njit(cache=True, nogil=True)
def _square(terms, begin, end):  # type: ignore[no-untyped-def]
    """The sum of the squares of a sorted tweet's counts."""
    total, first = 0, begin
    while first < end:
        last = first
        while last < end and terms[last] == terms[first]:
            last += 1
        total += (last - first) ** 2
        first = last
    return total
