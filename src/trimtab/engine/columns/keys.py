"""Numbers keys: values that SQL groups together have one number, and keys of the state come before new ones.

Null is a key, 0.0 and -0.0 are one key, and so are all NaNs, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import Int64Array, canonical, int64s, plain, plain_type, single
from trimtab.engine.columns.groups import LARGE, compiled_first_rows, counting_order, first_rows
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import is_counted_time, order_codes, unfit
from trimtab.keyed_state import KEY, ROW

SAMPLE = 1_000
"""How many rows are compared first: they mostly show if one column doesn't determine the others."""

Numbered = tuple[Int64Array, int]
"""A number per row, from 0, and how many there are."""


def key_codes(columns: Sequence[pa.Array | pa.ChunkedArray], count: int) -> Numbered:
    """Number the keys of `count` rows in order of appearance.

    >>> key_codes([pa.array([0.0, -0.0, None]), pa.array(["a", "a", "a"])], 3)
    (array([0, 0, 1]), 2)

    Raises InputError `input.type` for a type that can't be a key.
    """
    if not columns:
        return np.zeros(count, np.int64), min(1, count)
    found = _codes_of_first(columns)
    if found is not None:
        return found
    return joint_codes(
        [value_codes(plain(column)) for column in columns], distinct_numbers if count >= LARGE else _hashed
    )


def _codes_of_first(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Numbered | None:
    """The numbers of the first column, if it determines all others, as a hash of the key does.

    None: it doesn't, or the columns have types for which that check takes as long as numbering them.
    """
    if len(columns) < 2 or not pa.types.is_int64(columns[0].type) or not all(map(_is_compared, columns)):
        return None
    arrays = [single(column) for column in columns]
    if len(arrays[0]) > 2 * SAMPLE and _codes_of_first([array.slice(0, SAMPLE) for array in arrays]) is None:
        return None
    codes, count = value_codes(arrays[0])
    first, of_rows = pa.array(first_rows(codes, count)), pa.array(codes)
    for array in arrays[1:]:
        # Every row must have the same value as the first row of its number.
        expected = array.take(first).take(of_rows)
        if not pc.all(pc.equal(array, expected), min_count=0).as_py():
            return None
    return codes, count


def _is_compared(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether values are the same key exactly if they are equal."""
    kind, types = column.type, pa.types
    simple = types.is_integer(kind) or is_counted_time(kind) or types.is_boolean(kind) or types.is_string(kind)
    return simple and not column.null_count


def value_codes(array: pa.Array) -> Numbered:
    """Number the distinct values of a plain array in order of appearance; null is a value."""
    kind = array.type
    if len(array) >= LARGE and not array.null_count and (pa.types.is_integer(kind) or is_counted_time(kind)):
        return distinct_numbers(order_codes(array))
    if pa.types.is_string_view(kind):
        array = array.cast(pa.string())
    try:
        encoded = canonical(array).dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError as error:
        raise unfit("PARTITION BY", kind) from error
    return _numbered(encoded)


def distinct_numbers(values: Int64Array) -> Numbered:
    """Number the distinct whole numbers in order of appearance.

    Numbers close together are looked up in a table, which is five times faster than hashing.
    """
    if not len(values):
        return values, 0
    least, most = int(values.min()), int(values.max())
    if most - least <= 8 * len(values) + 65536:
        return _table_codes(values, least, most - least + 1)
    return _hashed(values)


def _hashed(values: Int64Array) -> Numbered:
    return _numbered(pa.array(values).dictionary_encode())


def _numbered(encoded: pa.DictionaryArray) -> Numbered:
    return int64s(encoded.indices), len(encoded.dictionary)


@column_kernel
def _table_codes(values: Int64Array, least: int, span: int) -> Numbered:
    """See `distinct_numbers`; hashing is its plain twin."""
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


def joint_codes(columns: Sequence[Numbered], number: Callable[[Int64Array], Numbered] = distinct_numbers) -> Numbered:
    """Number the distinct combinations, in order of appearance.

    Each column comes with the number of its codes. A product of two numbers always fits into int64,
    because codes are numbered again, from 0, after each column.
    """
    codes, count = columns[0]
    for more, size in columns[1:]:
        codes, count = number(codes * max(size, 1) + more)
    return codes, count


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys: their columns, and how many there are (one, if there are no columns)."""

    columns: dict[str, pa.Array]
    count: int

    def take(self, numbers: Int64Array) -> Keys:
        """The keys with these numbers, in this order."""
        places = pa.array(numbers)
        return Keys({name: c.take(places) for name, c in self.columns.items()}, len(numbers))


def encode_keys(
    known: pa.Table | None, rows: pa.Table, columns: Sequence[str], memo: Memo | None = None
) -> tuple[Int64Array, Keys]:
    """The key number of every row, and the keys: the `known` ones first, then the new ones.

    Queries with these keys over these rows share the numbering of the rows by their `memo`; what each of them does
    itself grows with the keys, not with the rows.

    Without key columns all rows have the one key 0. A key is shown as 0.0, never as -0.0, whichever came first: so it
    is the same wherever the stream is cut, and the same as in Spark.
    """
    before = known.num_rows if known is not None else 0
    if not columns:
        return np.zeros(rows.num_rows, np.int64), Keys({}, min(1, before + rows.num_rows))
    arrays = {name: plain(rows[name]) for name in columns}
    codes, first = (memo or Memo()).once(_keys_of_rows, list(arrays.values()))
    keys = Keys(arrays, rows.num_rows).take(first)
    if before and known is not None:
        both = {name: pa.concat_arrays([plain(known[name]).cast(c.type), c]) for name, c in keys.columns.items()}
        joint, count = key_codes(list(both.values()), before + keys.count)
        # Known keys are distinct, so their numbers are their rows.
        assert joint[before - 1] == before - 1
        codes, keys = joint[before:][codes], Keys(both, len(joint)).take(first_rows(joint, count))
    return codes, Keys({name: canonical(array) for name, array in keys.columns.items()}, keys.count)


def _keys_of_rows(*columns: pa.Array) -> tuple[Int64Array, Int64Array]:
    """The key number of every row, in order of appearance, and the first row of each key."""
    codes, count = key_codes(columns, len(columns[0]))
    return codes, first_rows(codes, count)


def kept_rows(table: pa.Table | None, columns: Sequence[str], schema: pa.Schema) -> tuple[pa.Table, Int64Array]:
    """The rows that a table of a state has, with the numbers of their keys; none, if there is no such table yet."""
    if table is None:
        fields = [pa.field(name, plain_type(schema.field(name).type)) for name in columns]
        return pa.schema(fields).empty_table(), np.empty(0, np.int64)
    return table.select([f"{ROW}{name}" for name in columns]).rename_columns(list(columns)), int64s(plain(table[KEY]))


def rows_to_keep(rows: pa.Table, numbers: Int64Array) -> pa.Table:
    """The table that `kept_rows` reads: names of columns can't collide with that of the key numbers."""
    names = [f"{ROW}{name}" for name in rows.column_names]
    return pa.table([pa.array(numbers, pa.int64()), *rows.columns], names=[KEY, *names])


def load_machine_code() -> None:
    """Load the kernels that only large batches use."""
    few = np.zeros(4, np.int64)
    counting_order(few, 2)
    compiled_first_rows(few, 2)
    distinct_numbers(few)
