"""The least loaded of all workers at once: a knock-out tournament, updated in place.

The tree is an array: leaf `size + w` is worker w, node k has the children 2k and 2k + 1, and each holds the winner
below it; the winner of all is at 1. Of equal loads the lower number wins.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.router import Float64Array, Int32Array


def relative_emptiness(capacities: Float64Array) -> Float64Array:
    """The factor for comparing a worker's load: 1 for a worker of mean capacity, infinite for one with none."""
    with np.errstate(divide="ignore"):
        return np.asarray(capacities.sum() / capacities.size / capacities)


def tournament(fills: Float64Array) -> tuple[Float64Array, Int32Array]:
    """The fills, padded to a power of two with infinities, and the tree over them.

    >>> fills, winners = tournament(np.array([3.0, 1.0, 2.0]))
    >>> int(winners[1])
    1
    >>> fills[1] = 5.0
    >>> raised(winners, fills, 1)
    >>> int(winners[1])
    2
    """
    size = 1 << (fills.size - 1).bit_length()
    padded = np.full(size, np.inf)
    winners = np.zeros(2 * size, np.int32)
    for node in range(size):
        winners[size + node] = node
        if node < fills.size:
            padded[node] = fills[node]
    for node in range(size - 1, 0, -1):
        left, right = winners[2 * node], winners[2 * node + 1]
        winners[node] = left if padded[left] <= padded[right] else right
    return padded, winners


@kernel
def raised(winners: Int32Array, fills: Float64Array, worker: int) -> None:
    """Update the tree after one worker's fill went up: only nodes where it was the winner can change."""
    node = (worker + fills.size) >> 1
    while node >= 1 and winners[node] == worker:
        left, right = winners[2 * node], winners[2 * node + 1]
        winners[node] = left if fills[left] <= fills[right] else right
        node >>= 1
