"""The V-shape written by hand for Numba: what one would write for this pattern alone."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def find_v_shapes(begins, ends, prices):
    """The rows of the top, the bottom and the way back of each match.

    begins, ends  (keys,) int64: where each key's rows lie
    prices        (rows,) float64, by key and time
    """
    room = prices.size // 3 + 1
    tops, bottoms, backs = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for key in range(begins.size):
        top = bottom = -1
        for row in range(begins[key], ends[key]):
            price = prices[row]
            if bottom >= 0:
                if price < prices[bottom]:
                    bottom = row
                elif price > prices[bottom]:
                    tops[count], bottoms[count], backs[count] = top, bottom, row
                    count += 1
                    top = bottom = -1
                else:
                    top, bottom = row, -1
            elif top >= 0 and price < prices[top]:
                bottom = row
            else:
                top = row
    return tops[:count], bottoms[:count], backs[:count]
