"""Numbering the keys of a batch: the keys of the state keep their numbers, new keys follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import Int64Array, first_rows, order_codes, plain
from trimtab.engine.columns.frozen import frozen_arguments
from trimtab.machine_code.kernel import kernel


def distinct_codes(array: pa.Array) -> tuple[Int64Array, int]:
    """Number the distinct values in order of appearance; null is a value, 0.0 equals -0.0."""
    kind = array.type
    if not array.null_count and (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return distinct_numbers(order_codes(array))
    if pa.types.is_floating(kind):
        array = pc.add(array, pa.scalar(0.0, kind))
    encoded = array.dictionary_encode(null_encoding="encode")
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
    return codes, len(encoded.dictionary)


def distinct_numbers(values: Int64Array) -> tuple[Int64Array, int]:
    """Number the distinct whole numbers in order of appearance.

    Numbers close together are looked up in a table, which is five times faster than hashing.
    """
    if not len(values):
        return values, 0
    least, most = int(values.min()), int(values.max())
    if most - least <= 8 * len(values) + 65536:
        codes, count = _table_codes(values, least, most - least + 1)
        return codes, int(count)
    encoded = pa.array(values).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, len(encoded.dictionary)


@frozen_arguments
@kernel
def _table_codes(values: Int64Array, least: int, span: int) -> tuple[Int64Array, int]:
    """See `distinct_numbers`."""
    table = np.full(span, -1, np.int64)
    codes = np.empty(values.size, np.int64)
    count = 0
    for i in range(values.size):
        place = values[i] - least
        if table[place] < 0:
            table[place] = count
            count += 1
        codes[i] = table[place]
    return codes, count


def joint_codes(columns: Sequence[tuple[Int64Array, int]]) -> tuple[Int64Array, int]:
    """Number the distinct combinations, in order of appearance.

    Each column comes with the number of its codes; a product of two always fits, because it is made
    dense again before the next one.
    """
    codes, count = columns[0]
    for more, size in columns[1:]:
        codes, count = distinct_numbers(codes * max(size, 1) + more)
    return codes, count


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys at hand: their columns, and how many there are (one, where there are no columns)."""

    columns: dict[str, pa.Array]
    count: int

    def take(self, numbers: Int64Array) -> Keys:
        """The keys with these numbers, in this order."""
        places = pa.array(numbers)
        return Keys({name: c.take(places) for name, c in self.columns.items()}, len(numbers))


def encode_keys(known: pa.Table | None, rows: pa.Table, columns: Sequence[str]) -> tuple[Int64Array, Keys]:
    """The key number of every row, and the keys: the `known` ones first, then the new ones.

    Without key columns everything has the one key 0.
    """
    before = known.num_rows if known is not None else 0
    if not columns:
        return np.zeros(rows.num_rows, np.int64), Keys({}, min(1, before + rows.num_rows))
    arrays = {name: plain(rows[name]) for name in columns}
    if known is not None:
        arrays = {
            name: pa.concat_arrays([plain(known[name]).cast(array.type), array]) for name, array in arrays.items()
        }
    codes, count = joint_codes([distinct_codes(array) for array in arrays.values()])
    # Every known key is another one, so their numbers are their rows.
    keys = Keys(arrays, len(codes)).take(first_rows(codes, count))
    return codes[before:], keys
