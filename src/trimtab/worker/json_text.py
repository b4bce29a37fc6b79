"""The text that Spark's `to_json` makes of lists, structs and maps, with `spark/row_hash.py`'s options.

Only for types of which it is known that the text is the same. These aren't among them: floats, whose text depends on
the version of Java; times with a zone, whose text depends on the session's; and maps by anything but strings, booleans
and whole numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import int64s, plain, plain_type, valid_mask
from trimtab.engine.columns.column_hash import has_hash, is_bytes, is_list, list_places, longs

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES = str.maketrans({chr(code): f"\\u{code:04X}" for code in range(32)} | _SHORT)
_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000


def has_json_text(kind: pa.DataType) -> bool:
    """Whether `json_texts` gives the text of values of this type."""
    kind, types = plain_type(kind), pa.types
    if types.is_struct(kind):
        return all(has_json_text(field.type) for field in kind)
    if types.is_map(kind):
        return _is_name(kind.key_type) and has_json_text(kind.item_type)
    if is_list(kind):
        return has_json_text(kind.value_type)
    if types.is_timestamp(kind):
        return kind.tz is None
    return types.is_null(kind) or (has_hash(kind) and _text_of(kind) is not None)


def json_texts(column: pa.Array) -> list[str]:
    """The text of each value."""
    array, types = plain(column), pa.types
    kind = array.type
    if types.is_null(kind):
        return ["null"] * len(array)
    if types.is_struct(kind):
        found = _structs(array)
    elif types.is_map(kind):
        found = _maps(array)
    elif is_list(kind):
        found = _lists(array)
    else:
        text = _text_of(kind)
        assert text is not None, kind
        found = iter(text(array))
    return [text if is_valid else "null" for text, is_valid in zip(found, valid_mask(array).tolist(), strict=True)]


def name_text(name: str) -> str:
    r"""A name or a string in quotes.

    >>> print(name_text('a "b"'))
    "a \"b\""
    """
    return f'"{name.translate(_ESCAPES)}"'


def map_entries(array: pa.Array) -> pa.Array:
    """A map as Spark's `map_entries` gives it: the list of its entries, each a struct of key and value."""
    starts, lengths = list_places(array)
    fields = [pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)]
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    rows = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    nulls = pa.array(~valid_mask(array)) if array.null_count else None
    return pa.ListArray.from_arrays(offsets, entries.take(pa.array(rows.astype(np.int64))), mask=nulls)


def _structs(array: pa.Array) -> Iterator[str]:
    names = [name_text(field.name) for field in array.type]
    if not names:
        return iter(["{}"] * len(array))
    fields = [json_texts(array.field(number)) for number in range(len(names))]
    rows = zip(*fields, strict=True)
    return ("{" + ",".join(map(":".join, zip(names, row, strict=True))) + "}" for row in rows)


def _lists(array: pa.Array) -> Iterator[str]:
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    return ("[" + ",".join(part) + "]" for part in _parts(array, json_texts(array.values)))


def _maps(array: pa.Array) -> Iterator[str]:
    names = json_texts(array.keys)
    if not is_bytes(plain_type(array.type.key_type)):
        names = [f'"{name}"' for name in names]
    entries = list(map(":".join, zip(names, json_texts(array.items), strict=True)))
    return ("{" + ",".join(part) + "}" for part in _parts(array, entries))


def _parts(array: pa.Array, texts: list[str]) -> Iterator[list[str]]:
    starts, lengths = list_places(array)
    return (texts[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True))


# Single values ---------------------------------------------------------------------------------


def _text_of(kind: pa.DataType) -> Callable[[pa.Array], list[str]] | None:
    """What makes the texts of a column of single values; None: nothing here. The texts of nulls mean nothing."""
    types = pa.types
    for fits, texts in _TEXTS.items():
        if getattr(types, fits)(kind):
            return texts
    return None


def _is_name(kind: pa.DataType) -> bool:
    types, kind = pa.types, plain_type(kind)
    return bool(types.is_signed_integer(kind) or types.is_boolean(kind) or _text_of(kind) is _strings)


def _booleans(array: pa.Array) -> list[str]:
    return ["true" if value else "false" for value in array.to_pylist()]


def _numbers(array: pa.Array) -> list[str]:
    return list(map(str, array.to_pylist()))


def _strings(array: pa.Array) -> list[str]:
    return [name_text(value or "") for value in array.to_pylist()]


def _binaries(array: pa.Array) -> list[str]:
    return [f'"{base64.b64encode(value or b"").decode()}"' for value in array.to_pylist()]


def _dates(array: pa.Array) -> list[str]:
    days = int64s(array.cast(pa.date32())).astype("datetime64[D]")
    return [f'"{_signed(text)}"' for text in np.datetime_as_string(days).tolist()]


def _times(array: pa.Array) -> list[str]:
    micros = longs(array).astype("datetime64[us]")
    return [f'"{_signed(text)}"' for text in np.datetime_as_string(micros).tolist()]


def _signed(text: str) -> str:
    """A time as Java writes it: years have four digits or more, and a plus in front if they have more."""
    if text[0] == "-":
        year, rest = text[1:].split("-", 1)
        return f"-{year:0>4}-{rest}"
    return f"+{text}" if text.index("-") > 4 else text


def _durations(array: pa.Array) -> list[str]:
    return [_duration(micros) for micros in longs(array).tolist()]


def _duration(micros: int) -> str:
    days, rest = divmod(abs(micros), _DAY_US)
    seconds, fraction = divmod(rest, _SECOND_US)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    part = f".{fraction:06}".rstrip("0") if fraction else ""
    sign = "-" if micros < 0 else ""
    return f"\"INTERVAL '{sign}{days} {hour:02}:{minute:02}:{second:02}{part}' DAY TO SECOND\""


_TEXTS: Mapping[str, Callable[[pa.Array], list[str]]] = {
    "is_boolean": _booleans,
    "is_signed_integer": _numbers,
    "is_decimal": _numbers,
    "is_string": _strings,
    "is_large_string": _strings,
    "is_string_view": _strings,
    "is_binary": _binaries,
    "is_large_binary": _binaries,
    "is_fixed_size_binary": _binaries,
    "is_binary_view": _binaries,
    "is_date": _dates,
    "is_timestamp": _times,
    "is_duration": _durations,
}
"""The makers of texts, by the test of `pyarrow.types` for what they take."""
