"""Values as machine numbers: the form of each type in a kernel, and code for nulls.

Booleans are 0 and 1, strings are their ranks among all strings at hand, dates are days, timestamps and intervals are
microseconds, decimals of up to 18 digits are scaled integers. For other types `NotCompilable` is raised.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from trimtab.engine.columns.arrays import is_string
from trimtab.engine.match.kernels.emit import NotCompilable

EPOCH = datetime.datetime(1970, 1, 1)
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Value:
    """Code for a value and for whether it is null; `form` is b, i, f, s (string rank), date, or d (scaled decimal)."""

    code: str
    null: str
    form: str
    scale: int = 0


def form_of(type_: pa.DataType) -> tuple[str, int]:
    """The form of a type in a kernel, and the scale of a decimal."""
    types = pa.types
    if types.is_boolean(type_):
        return "b", 0
    if types.is_uint64(type_):
        raise NotCompilable("unsigned numbers of 64 bits")
    if types.is_integer(type_) or types.is_timestamp(type_) or types.is_duration(type_) or types.is_null(type_):
        return "i", 0
    if types.is_date(type_):
        return "date", 0
    if types.is_floating(type_):
        return "f", 0
    if types.is_decimal(type_) and type_.precision <= 18:
        return "d", type_.scale
    if is_string(type_):
        return "s", 0
    raise NotCompilable(f"type {type_}")


def int_of(value: object) -> int:
    """A constant of an integer form as its number."""
    match value:
        case int() | Decimal():
            return int(value)
        case datetime.timedelta():
            return value // datetime.timedelta(microseconds=1)
        case datetime.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return (value - EPOCH) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - EPOCH.date()).days
        case _:
            raise NotCompilable(f"a constant {value!r}")


def any_of(*conditions: str) -> str:
    """Code for OR, without conditions that are known."""
    if "True" in conditions:
        return "True"
    live = [c for c in conditions if c != "False"]
    return f"({' or '.join(live)})" if len(live) > 1 else "".join(live) or "False"


def negated(condition: str) -> str:
    """Code for NOT."""
    return {"False": "True", "True": "False"}.get(condition, f"(not {condition})")


def all_of(*conditions: str) -> str:
    """Code for AND, without conditions that are known."""
    if "False" in conditions:
        return "False"
    live = [c for c in conditions if c != "True"]
    return f"({' and '.join(live)})" if len(live) > 1 else "".join(live) or "True"


def choice(values: Sequence[Value], conditions: Sequence[str]) -> tuple[str, str]:
    """Code for the first value whose condition holds, and for whether it is null; the last value needs no condition."""
    code, null = values[-1].code, values[-1].null
    for value, condition in reversed(list(zip(values[:-1], conditions, strict=True))):
        code = f"({value.code} if {condition} else {code})"
        null = null if null == value.null else f"({value.null} if {condition} else {null})"
    return code, null


def if_known(value: Value, then: str, otherwise: str) -> str:
    """Code for one thing where a value is not null and another where it is."""
    if value.null == "False":
        return then
    if value.null == "True":
        return otherwise
    return f"({otherwise} if {value.null} else {then})"
