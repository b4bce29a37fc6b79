"""Random Arrow columns of every type that can be hashed, with nulls and the values at which mistakes show."""

from __future__ import annotations

import datetime as dt
import random
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

EPOCH = dt.datetime(1970, 1, 1)
_FEW = pa.struct({"a": pa.int32(), "b": pa.string()})
FLAT: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(9)": pa.decimal128(9, 2),
    "decimal(18)": pa.decimal128(18, 18),
    "decimal(19)": pa.decimal128(19, 0),
    "decimal(38)": pa.decimal128(38, 10),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval": pa.duration("us"),
}
NESTED: dict[str, pa.DataType] = {
    **{
        f"list of {name}": pa.list_(kind)
        for name, kind in FLAT.items()
        if name not in ("float", "double", "timestamp")  # their text is up to the JVM
    },
    "list of lists": pa.list_(pa.list_(pa.int64())),
    "list of structs": pa.list_(_FEW),
    "struct": pa.struct({"n": pa.int64(), 'odd "name"': pa.decimal128(20, 7), "few": _FEW, "l": pa.list_(pa.int8())}),
    "map by string": pa.map_(pa.string(), pa.int64()),
    "map by int": pa.map_(pa.int32(), pa.string()),
    "map by boolean": pa.map_(pa.bool_(), pa.date32()),
    "list of maps": pa.list_(pa.map_(pa.string(), pa.int32())),
    "struct with a map": pa.struct({"m": pa.map_(pa.int64(), _FEW), "n": pa.int32()}),
}
_LETTERS = [
    "a",
    "Z",
    "0",
    " ",
    '"',
    "\\",
    "/",
    "\n",
    "\t",
    "\x00",
    "\x1f",
    "\x7f",
    "é",
    "漢",
    "𝄞",
    "\u2028",
    "\u0301",
    "ß",
]
_EDGES: dict[str, tuple[Any, ...]] = {
    "float": (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-45, 3.4e38, 0.5, 1.0),
    "double": (0.0, -0.0, float("nan"), float("inf"), 5e-324, 1e308, struct.unpack("<d", b"\1" * 6 + b"\xf8\xff")[0]),
    "date": (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(1970, 1, 1)),
    "string": ("", "a" * 31, "b" * 32, "c" * 33, "d" * 100, "\u00e9" * 20),
    "timestamp": (dt.datetime.min, EPOCH, EPOCH - dt.timedelta(microseconds=1), dt.datetime.max),
    "interval": tuple(dt.timedelta(microseconds=n) for n in (0, 1, -1, 60_000_000, -86_400_000_001, 8 * 10**18)),
}


def column_of(kind: pa.DataType, count: int, dice: random.Random) -> pa.Array:
    """A column of `count` values, about one in eight of them null."""
    return pa.array([value_of(kind, dice) for _ in range(count)], kind)


def value_of(kind: pa.DataType, dice: random.Random) -> Any:
    """A random value of a type, or None."""
    if dice.random() < 0.12:
        return None
    types = pa.types
    if types.is_struct(kind):
        return {field.name: value_of(field.type, dice) for field in kind}
    if types.is_map(kind):
        keys = [key for _ in range(dice.randrange(4)) if (key := value_of(kind.key_type, dice)) is not None]
        return [(key, value_of(kind.item_type, dice)) for key in dict.fromkeys(keys)]
    if types.is_list(kind):
        return [value_of(kind.value_type, dice) for _ in range(dice.choice((0, 1, 2, 5)))]
    edges, usual = _values(kind)
    return dice.choice(edges) if edges and dice.random() < 0.3 else usual(dice)


def _values(kind: pa.DataType) -> tuple[tuple[Any, ...], Callable[[random.Random], Any]]:
    """The edges of a type, and what draws its usual values."""
    types = pa.types
    if types.is_boolean(kind):
        return (), lambda dice: dice.random() < 0.5
    if types.is_integer(kind):
        low, high = -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1
        return (low, high, 0, -1, 1), lambda dice: dice.randint(low, high)
    if types.is_floating(kind):
        single = types.is_float32(kind)
        return _EDGES["float" if single else "double"], lambda dice: dice.gauss(0, 1e6)
    if types.is_decimal(kind):
        most, wide = 10**kind.precision - 1, Context(prec=40)
        unscaled = [n for m in (0, 1, 127, 128, 255, 256, 32767, 32768, most) for n in (m, -m) if m <= most]
        edges = tuple(Decimal(n).scaleb(-kind.scale, wide) for n in unscaled)
        return edges, lambda dice: Decimal(dice.randint(-most, most)).scaleb(-kind.scale, wide)
    if types.is_string(kind):
        return _EDGES["string"], lambda dice: "".join(dice.choices(_LETTERS, k=dice.randrange(50)))
    if types.is_binary(kind):
        return (b"", b"\xff" * 32), lambda dice: dice.randbytes(dice.randrange(70))
    if types.is_date(kind):
        return _EDGES["date"], lambda dice: dt.date.fromordinal(dice.randint(1, dt.date.max.toordinal()))
    if types.is_timestamp(kind):
        return _EDGES["timestamp"], lambda dice: EPOCH + dt.timedelta(microseconds=dice.randint(-(10**16), 10**16))
    assert types.is_duration(kind), kind
    return _EDGES["interval"], lambda dice: dt.timedelta(microseconds=dice.randint(-(10**18), 10**18))
