"""Which key groups a run of state holds, as text that fits into a manifest: engines open only the runs they need.

A set of groups is an integer with a bit for each, as bytes (the lowest group first), compressed, in base 64. For 16,384
groups on 64 engines that is about 350 characters a run; for 1,024 groups in one range it is 24.
"""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache

import numpy as np

from trimtab.keyed_state import GROUP_SHIFT
from trimtab.state.gathering import BoolArray, Int64Array

ALL = ""
"""What runs of older builds say: any group may be in them."""


def held_by(slots: Int64Array) -> str:
    """The groups of some sorted slots.

    >>> packed = held_by(np.array([3 << 48, 5 << 48, (5 << 48) + 1]))
    >>> bin(bits_of(packed)), bits_of(packed) == bits(np.array([False, False, False, True, False, True]))
    ('0b101000', True)
    """
    groups = slots >> GROUP_SHIFT
    mask = np.zeros(int(groups[-1]) + 1 if len(groups) else 0, np.bool_)
    mask[groups] = True
    return base64.b64encode(zlib.compress(np.packbits(mask, bitorder="little").tobytes(), 1)).decode()


def bits(groups: BoolArray) -> int:
    """A mask of groups as an integer."""
    return int.from_bytes(np.packbits(groups, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=4096)  # of 4 kB at most
def bits_of(packed: str) -> int:
    """The groups that `held_by` packed, as an integer; all of them for `ALL`."""
    return -1 if packed == ALL else int.from_bytes(zlib.decompress(base64.b64decode(packed)), "little")
