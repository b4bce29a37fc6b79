"""Hashes of a row's columns as Arrow arrays: the same, bit for bit, as those of `spark/row_hash.py`.

State is stored by `key_hash`, and `arrival_hash` orders rows that tie in time, so a stream must not notice who hashes
its rows. Where that can't be promised (`has_columnar_hash`), the rows are hashed in the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, plain, plain_type, valid_mask
from trimtab.engine.columns.column_hash import chained, has_hash, is_list, seeds
from trimtab.worker.json_text import has_json_text, json_texts, map_entries, name_text

Column: TypeAlias = pa.Array | pa.ChunkedArray
_ENTRIES = "col1"
"""How Spark names the list of a map's entries, which has no name of its own."""


def has_columnar_hash(kind: pa.DataType) -> bool:
    """Whether rows with a column of this type can be hashed here.

    Not those with numbers that Spark doesn't have (unsigned, half floats), with times of day or intervals of months,
    or with lists, structs and maps that `has_json_text` rejects: their text is a part of the hash.
    """
    kind = plain_type(kind)
    if pa.types.is_struct(kind) or is_list(kind) or pa.types.is_map(kind):
        return has_json_text(kind)
    return has_hash(kind)


def key_hash(columns: Sequence[Column], count: int) -> Int64Array:
    """The hash by which keys are placed, of `count` rows; equal values give equal hashes, so there is one zero.

    >>> key_hash([pa.array([1]), pa.array(["a"])], 1)
    array([-8527884376001292090])
    """
    mixed = seeds(count)
    for column in columns:
        if has_hash(column.type):
            mixed = chained(column, mixed)
    return mixed.view(np.int64)


def arrival_hash(columns: Mapping[str, Column], count: int) -> Int64Array:
    """The hash by which rows are ordered that tie in time: of all values, and of where the nulls are.

    For rows without nulls, lists, structs and maps it is the `key_hash`. The columns have the names that they have in
    Spark: those of lists and structs are in the text that is hashed.
    """
    values: list[tuple[str, pa.Array]] = []
    for name, column in columns.items():
        array = plain(column)
        values.append((_ENTRIES, map_entries(array)) if pa.types.is_map(array.type) else (name, array))
    found = key_hash([array for _, array in values], count)
    nested = [(name, array) for name, array in values if pa.types.is_struct(array.type) or is_list(array.type)]
    if not nested and not any(array.null_count for _, array in values):
        return found
    shape, has_null = seeds(count), np.zeros(count, np.bool_)
    for _, array in values:
        is_null = ~valid_mask(array)
        shape, has_null = chained(pa.array(is_null), shape), has_null | is_null
    for name, array in nested:
        texts = [f"{{{name_text(name)}:{text}}}" for text in json_texts(array)]
        shape = chained(pa.array(texts, pa.large_string()), shape)
    if not nested:
        shape = np.where(has_null, shape, np.uint64(0))
    return found ^ shape.view(np.int64)
