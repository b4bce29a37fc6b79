"""When a worker is full, and which full workers need not be checked again: for PoRC and bounded hashing.

A worker is full when its load is at least (1 + epsilon) times its share of all messages, the one in hand included.
Written as `load * pace >= total`, with `pace = 1 / ((1 + epsilon) * share)`, the left side grows only when the worker
gets a message, and the right side always grows. So a walk past full workers may skip them the next time, as long as
the total has not passed the smallest left side among them. `Memo` keeps that for keys with long walks; a hot key then
walks its row about once in as many messages as there are workers, and not for every message.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.hashing import UInt64Array
from trimtab_lab.routers.router import Float64Array

_MEMO_SLOTS = 4096

Memo = tuple[UInt64Array, UInt64Array, Float64Array]
"""Which words have a long walk, how many words of it may be skipped, and up to which total.

It changes no answer, only the time.
"""


def new_memos(sources: int) -> Memo:
    """An empty memo for each source (the rows of the three arrays)."""
    shape = sources, max(64, _MEMO_SLOTS >> (sources - 1).bit_length())
    return np.zeros(shape, np.uint64), np.zeros(shape, np.uint64), np.zeros(shape)


def pace(shares: Float64Array, epsilon: float) -> Float64Array:
    """The factor for comparing a load with the number of messages; infinite for a share of 0.

    >>> pace(np.array([0.5, 0.5]), 0.25).tolist()
    [1.6, 1.6]
    """
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / ((1.0 + epsilon) * shares))


@kernel
def least_full(loads: Float64Array, paces: Float64Array) -> int:
    """The worker that is the least full of all, the first of equals."""
    best, least = 0, np.inf
    for worker in range(loads.size):
        fill = loads[worker] * paces[worker]  # NaN for a worker without capacity, and so never less
        if fill < least:
            best, least = worker, fill
    return best
