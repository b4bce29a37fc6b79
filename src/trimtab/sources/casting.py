"""Rows with the types that a schema asks for: a value that can't be cast loses its own row, and no other.

Columns are cast as a whole. Only if that fails are they halved, again and again, until the values that fail are alone:
a few bad values in a million cost a few dozen casts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SHOWN = 50
"""How many characters of a value a reason has at most."""
_UTC = pa.timestamp("us", "UTC")
_ZONE = r":\d{2}(\.\d+)?\s*(Z|z|[+-]\d{2}(:?\d{2})?)$"
_BELOW_US = r"(\.\d{6})\d+"


def cast_rows(table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """The rows with the schema's columns, and what is wrong with those that are left out, by their numbers in `table`.

    Columns that the table lacks are null, others are dropped. Texts become numbers and times; a time without a zone is
    in UTC; what is finer than a microsecond is cut off. Anything else that would lose something is wrong.

    >>> rows, wrong = cast_rows(pa.table({"n": ["1", "two", "3"]}), pa.schema({"n": pa.int64(), "x": pa.float64()}))
    >>> rows.to_pylist(), wrong
    ([{'n': 1, 'x': None}, {'n': 3, 'x': None}], {1: "n: 'two' is no int64"})
    """
    columns, wrong = list[pa.ChunkedArray](), dict[int, str]()
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        column = table[field.name]
        pieces, offset = list[pa.Array](), 0
        for chunk in column.chunks:
            parts, bad = _cast_apart(chunk, field.type)
            pieces += parts
            for row in bad:
                wrong.setdefault(offset + row, f"{field.name}: {_shown(chunk[row])} is no {field.type}")
            offset += len(chunk)
        columns.append(pa.chunked_array(pieces, field.type))
    rows = pa.Table.from_arrays(columns, schema=schema)
    if wrong:
        keep = np.ones(table.num_rows, dtype=np.bool_)
        keep[list(wrong)] = False
        rows = rows.filter(pa.array(keep))
    return rows, dict(sorted(wrong.items()))


def is_castable(found: pa.DataType, type_: pa.DataType) -> bool:
    """Whether there is a cast from a type to another, for any value."""
    try:
        _caster(found, type_)(pa.array([], found))
    except pa.ArrowNotImplementedError:
        return False
    return True


def _cast_apart(array: pa.Array, type_: pa.DataType) -> tuple[list[pa.Array], list[int]]:
    """The values in pieces, with null for those that can't be cast, and where those are."""
    cast, pieces, bad = _caster(array.type, type_), list[pa.Array](), list[int]()
    waiting = [(0, len(array))]
    while waiting:
        start, count = waiting.pop()
        try:
            pieces.append(cast(array.slice(start, count)))
        except pa.ArrowNotImplementedError:  # there is no such cast, whatever the values are
            pieces.append(pa.nulls(count, type_))
            bad += (np.flatnonzero(array.slice(start, count).is_valid()) + start).tolist()
        except pa.ArrowInvalid:
            if count == 1:
                pieces.append(pa.nulls(1, type_))
                bad.append(start)
            else:
                waiting += [(start + count // 2, count - count // 2), (start, count // 2)]
    return pieces, bad


def _caster(found: pa.DataType, type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """What casts arrays of a type to another; it raises ArrowInvalid if one of the values can't be cast."""
    if found == type_:
        return lambda array: array
    if pa.types.is_dictionary(found):
        inner = _caster(found.value_type, type_)
        return lambda array: inner(array.dictionary_decode())
    if _is_bytes(found) and not _is_bytes(type_):
        inner = _caster(pa.string(), type_)
        return lambda array: inner(array.cast(pa.string()))  # which checks that it is UTF-8
    if _is_text(found) and pa.types.is_timestamp(type_):
        return lambda array: _times(pc.utf8_trim_whitespace(array), type_)
    if _is_text(found) and not (_is_text(type_) or _is_bytes(type_)):
        return lambda array: pc.utf8_trim_whitespace(array).cast(type_)
    options = pc.CastOptions(type_, allow_time_truncate=True)
    return lambda array: pc.cast(array, options=options)


def _times(text: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return pc.cast(pc.cast(text, pa.timestamp("us")), type_)
    except pa.ArrowInvalid:  # some have a zone, or are finer
        text = pc.replace_substring_regex(text, _BELOW_US, r"\1")
        is_zoned = pc.match_substring_regex(text, _ZONE)
        nothing = pa.scalar(None, text.type)
        zoned = pc.cast(pc.if_else(is_zoned, text, nothing), _UTC)
        plain = pc.cast(pc.if_else(is_zoned, nothing, text), pa.timestamp("us"))
        return pc.cast(pc.coalesce(zoned, pc.cast(plain, _UTC)), type_)


def _is_bytes(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(kind(type_) for kind in kinds)


def _is_text(type_: pa.DataType) -> bool:
    return any(kind(type_) for kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _shown(value: pa.Scalar) -> str:
    try:
        found = value.as_py()
    except (OverflowError, ValueError):  # a time that Python doesn't have
        found = value.value
    if isinstance(found, bytes):
        found = found.decode(errors="backslashreplace")
    text = repr(found)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
