"""Which keys are hot: the SpaceSaving sketch, a fixed number of counters over an unbounded stream.

Every key with more than 1/counters of the messages has a counter. A count is never too low, and at most its `error` too
high. A key without a counter takes over the one with the least count; among equals, the next one after the last that
was taken over, in a cycle. A search goes round the counters: a whole round without finding the least count means that
it has risen, which happens at most messages/counters times, so a message costs O(1) on average.

Reference: Metwally, Agrawal and El Abbadi (2005).
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.hashing import mix
from trimtab_lab.routers.router import Int32Array, Int64Array

KEY, COUNT, ERROR = 0, 1, 2
USED, CURSOR, LEAST, TOTAL, NEXT_HALVING = 0, 1, 2, 3, 4


def new_sketch(counters: int, halving: int) -> tuple[Int64Array, Int32Array, Int64Array]:
    """An empty sketch: its counters, the index from keys to them, and its state.

    counters  (counters, 3) key, count and error
    index     (a power of two, at least twice as large) counter + 1, or 0
    state     (5,) how many are used, the cursor of the cycle, the least count, all messages, when to halve next
    """
    state = np.zeros(5, np.int64)
    state[NEXT_HALVING] = halving
    return np.zeros((counters, 3), np.int64), np.zeros(1 << (2 * counters).bit_length(), np.int32), state


@kernel
def see(key: np.int64, counters: Int64Array, index: Int32Array, state: Int64Array, halving: int) -> int:
    """Count a message and return its key's counter. Counts are halved every `halving` messages (0: never)."""
    if halving and state[TOTAL] >= state[NEXT_HALVING]:
        _halve(counters, state)
        state[NEXT_HALVING] = state[TOTAL] + halving
    state[TOTAL] += 1
    slot = _slot_of(key, counters, index)
    if index[slot]:
        counter = int(index[slot]) - 1
    elif state[USED] < counters.shape[0]:
        counter = int(state[USED])
        state[USED] += 1
        counters[counter, KEY] = key
        index[slot] = counter + 1
    else:
        counter = _victim(counters, state)
        _drop(_slot_of(counters[counter, KEY], counters, index), counters, index)
        counters[counter, KEY] = key
        counters[counter, ERROR] = counters[counter, COUNT]
        index[_slot_of(key, counters, index)] = counter + 1
    counters[counter, COUNT] += 1
    return counter


@kernel
def is_hot(counter: int, counters: Int64Array, state: Int64Array, share: float, least_messages: int) -> bool:
    """Whether the key certainly has that share of the messages; False before it has `least_messages`."""
    sure = counters[counter, COUNT] - counters[counter, ERROR]
    return bool(sure >= share * max(state[TOTAL], least_messages))


@kernel
def _victim(counters: Int64Array, state: Int64Array) -> int:
    size = counters.shape[0]
    while True:
        cursor = int(state[CURSOR])
        for step in range(size):
            counter = cursor + step
            if counter >= size:
                counter -= size
            if counters[counter, COUNT] <= state[LEAST]:
                state[CURSOR] = counter + 1 if counter + 1 < size else 0
                return counter
        state[LEAST] = counters[:, COUNT].min()


@kernel
def _halve(counters: Int64Array, state: Int64Array) -> None:
    for counter in range(state[USED]):
        counters[counter, COUNT] >>= 1
        counters[counter, ERROR] >>= 1
    state[TOTAL] >>= 1
    state[LEAST] = 0  # the next search finds it


@kernel
def _slot_of(key: np.int64, counters: Int64Array, index: Int32Array) -> int:
    mask = index.size - 1
    slot = int(mix(np.uint64(key))) & mask
    while index[slot] and counters[index[slot] - 1, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _drop(slot: int, counters: Int64Array, index: Int32Array) -> None:
    """Empty a slot and move back the later entries that it had displaced, so that no search ends too early."""
    mask = index.size - 1
    hole = slot
    following = (hole + 1) & mask
    while index[following]:
        wanted = int(mix(np.uint64(counters[index[following] - 1, KEY]))) & mask
        # An entry may fill the hole unless its own place is between the hole and its slot.
        if ((following - wanted) & mask) >= ((following - hole) & mask):
            index[hole] = index[following]
            hole = following
        following = (following + 1) & mask
    index[hole] = 0
