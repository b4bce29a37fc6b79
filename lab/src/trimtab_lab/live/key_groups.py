"""Which key group a key is in, computed as Spark does it: to know in advance which engine a row goes to.

Keys are split in the feed with it: a message that a router sends to a worker gets a `salt` with which its key group is
on the engine of that number. When a job is new, key groups are assigned to engines in turn.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import xxhash

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

SPARK_SEED = 42
MOST_SALTS = 1_000


def key_group(groups: int, *columns: int) -> int:
    """The key group of a key of int columns: `pmod(xxhash64(columns), groups)`.

    >>> key_group(4096, 7), key_group(300, 7, 1)
    (1143, 106)
    """
    digest = SPARK_SEED
    for value in columns:
        digest = xxhash.xxh64_intdigest(struct.pack("<i", value), digest)
    return (digest - (1 << 64) if digest >= 1 << 63 else digest) % groups


def groups_of_keys(groups: int, keys: int) -> Int64Array:
    """The key group of each key from 0 on; a key is one int column."""
    return np.array([key_group(groups, key) for key in range(keys)], np.int64)


def salts(keys: Int64Array, workers: Int64Array | Int32Array, *, groups: int, engines: int) -> Int32Array:
    """For each message the salt with which (key, salt) is on the engine of its worker's number.

    The same key and worker always have the same salt, so that a worker has one state per key.

    >>> found = salts(np.array([5, 5, 9]), np.array([2, 0, 1]), groups=64, engines=3)
    >>> [key_group(64, key, salt) % 3 for key, salt in zip((5, 5, 9), found.tolist(), strict=True)]
    [2, 0, 1]
    """
    pairs, places = np.unique(np.stack([keys, workers.astype(np.int64)]), axis=1, return_inverse=True)
    chosen = [_salt(int(key), int(worker), groups, engines) for key, worker in pairs.T]
    return np.array(chosen, np.int32)[places.ravel()]


def _salt(key: int, worker: int, groups: int, engines: int) -> int:
    for salt in range(MOST_SALTS):
        if key_group(groups, key, salt) % engines == worker:
            return salt
    raise AssertionError(f"no salt brings key {key} to engine {worker} of {engines}")
