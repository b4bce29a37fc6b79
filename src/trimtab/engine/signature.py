"""Signatures: what a checkpoint identifies an operator by, as plain values that JSON can hold.

A signature doesn't follow the names in the code: every class that is a part of an operator declares its name in
signatures, and keeps it when the class or a field is renamed. A name with a version (`match/1`) belongs to an operator;
the version is raised when the operator's state changes its shape. A field that is added later needs a default, and is
left out of the signature while it has that value, so that existing operators keep their signatures.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

Part = TypeVar("Part")

_TEXTS = (
    (pa.DataType, "type"),
    (float, "float"),
    (decimal.Decimal, "decimal"),
    (datetime.datetime, "datetime"),  # before date, because a datetime is also a date
    (datetime.date, "date"),
    (datetime.time, "time"),
    (datetime.timedelta, "timedelta"),
    (bytes, "bytes"),
)
"""Types whose values are written as text, and the name of each."""


_signed: dict[type, tuple[str, list[tuple[str, str, Any]]]] = {}
"""How instances of a class are written: its name, and of each field the name in the code, that in signatures, and the
default."""


def signed(
    name: str,
    *,
    without: tuple[str, ...] = (),
    renamed: Mapping[str, str] | None = None,
    computed: tuple[str, ...] = (),
) -> Callable[[type[Part]], type[Part]]:
    """Make a dataclass a part of signatures, under this name.

    `without`: fields that no state depends on. `renamed`: names in signatures that differ from those in the code.
    `computed`: properties that are a part of the signature where they are true.
    """

    def sign(part: type[Part]) -> type[Part]:
        fields = [
            (field.name, (renamed or {}).get(field.name, field.name), field.default)
            for field in dataclasses.fields(part)  # type: ignore[arg-type]
            if field.name not in without
        ]
        _signed[part] = (name, [*fields, *((each, each, False) for each in computed)])
        return part

    return sign


def signature_of(value: Any) -> Any:
    """The signature of an operator or of a part of one.

    Raises TypeError for a value without one: a new part of an operator has to be `signed`.

    >>> from trimtab.engine.columns.order import OrderKey
    >>> signature_of((OrderKey("ts"), OrderKey("n", descending=True)))
    [{'is': 'order', 'column': 'ts'}, {'is': 'order', 'column': 'n', 'descending': True}]
    """
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, tuple | list):
        return [signature_of(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, pa.Schema):
        return [[field.name, signature_of(field.type)] for field in value]
    for kind, name in _TEXTS:
        if isinstance(value, kind):
            return {"is": name, "text": str(value)}
    if type(value) in _signed:
        name, fields = _signed[type(value)]
        # No value equals `dataclasses.MISSING`, the default of a field that has none.
        given = {key: getattr(value, field) for field, key, default in fields if getattr(value, field) != default}
        return {"is": name} | {key: signature_of(each) for key, each in given.items()}
    if hasattr(value, "signature"):
        return value.signature()
    raise TypeError(f"{type(value).__name__} has no signature: mark the class with @signed")
