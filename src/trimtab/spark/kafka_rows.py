"""Rows as messages of Kafka: the texts of values and keys, computed for all rows of a table at once, by DuckDB.

A value is a JSON object of the row's columns, as Spark's `to_json` writes it, except that

- nulls are kept: every message has every column,
- times have microseconds, and are UTC (`2030-01-01T12:00:00.500000Z`); a TIMESTAMP_NTZ has no zone,
- decimals have all their digits.

A DATE is `2030-01-01`, BINARY is in base 64, numbers that aren't finite are the texts NaN, Infinity and -Infinity.

Which writer of a sink a message belongs to is a hash of its key, or of its value if it has none. So it is the same
wherever keys are placed and whichever process writes it, and messages with the same key stay in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from trimtab.engine.columns.arrays import Int64Array
from trimtab.rowwise.duck import connection
from trimtab.worker.row_hash import key_hash

VALUE = "value"
"""The column that is a message's value as it is, if a query has no other besides the key."""
_VALUE, _KEY = "v", "k"
_ISO = "%Y-%m-%dT%H:%M:%S.%f"


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages in order; a key or a value may be missing."""

    keys: Sequence[str | bytes | None]
    values: Sequence[str | bytes | None]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.values)


def messages_of(rows: pa.Table, key: str | None = None) -> Messages:
    """The messages of rows. `key`: the column that is their key; it is a part of the JSON, too.

    >>> found = messages_of(pa.table({"symbol": ["A"], "price": [1.5], "note": pa.nulls(1)}), "symbol")
    >>> found.keys, found.values
    (['A'], ['{"symbol":"A","price":1.5,"note":null}'])
    """
    return in_lists(message_columns(rows, key))


def in_lists(messages: pa.Table) -> Messages:
    """The messages of columns as `message_columns` gives them, to be handed over one by one."""
    return Messages(messages[_KEY].to_pylist(), messages[_VALUE].to_pylist())


def shares(messages: pa.Table, writers: int) -> dict[int, pa.Table]:
    """The messages of each writer that has some, in order. `messages`: as `message_columns` gives them.

    >>> texts = pa.table({"v": ["a", "b", "c", "d"], "k": ["x", "y", "x", None]})
    >>> {writer: share["v"].to_pylist() for writer, share in shares(texts, 2).items()}
    {0: ['d'], 1: ['a', 'b', 'c']}
    """
    if writers == 1:
        return {0: messages} if messages.num_rows else {}
    whose = _writers_of(messages, writers)
    order = np.argsort(whose, kind="stable")
    starts = np.searchsorted(whose[order], np.arange(writers + 1))
    taken = messages.take(pa.array(order))
    return {
        writer: taken.slice(start, end - start)
        for writer, (start, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
        if end > start
    }


def _writers_of(messages: pa.Table, writers: int) -> Int64Array:
    hashes = key_hash([messages[_KEY]], messages.num_rows)
    if messages[_KEY].null_count:
        of_values = key_hash([messages[_VALUE]], messages.num_rows)
        hashes = np.where(pc.is_valid(messages[_KEY]).to_numpy(), hashes, of_values)
    return hashes % writers


def message_columns(rows: pa.Table, key: str | None = None) -> pa.Table:
    """The values and keys of rows as columns of texts or bytes."""
    places = {name: f"c{place}" for place, name in enumerate(rows.column_names)}  # DuckDB ignores the case of names
    value = places[VALUE] if is_value_itself(rows.schema, key) else _struct(rows.schema, places)
    key_text = "CAST(NULL AS VARCHAR)" if key is None else _key(rows.schema.field(key).type, places[key])
    return _computed(
        rows.rename_columns(list(places.values())), f"SELECT {value} AS {_VALUE}, {key_text} AS {_KEY} FROM rows"
    )


def is_value_itself(schema: pa.Schema, key: str | None) -> bool:
    """Whether the values are the texts or bytes of the column `value`, because there is no other besides the key.

    >>> is_value_itself(pa.schema({"k": pa.int64(), "value": pa.string()}), "k")
    True
    """
    return [name for name in schema.names if name != key] == [VALUE] and _is_plain(schema.field(VALUE).type)


def _computed(rows: pa.Table, sql: str) -> pa.Table:
    here = connection()
    here.register("rows", rows)
    try:
        return here.sql(sql).to_arrow_table()
    finally:
        here.unregister("rows")


def _key(type_: pa.DataType, sql: str) -> str:
    """A text or bytes as they are, a time without its quotes, anything else as in JSON; null stays null."""
    if _is_plain(type_):
        return sql
    if pt.is_timestamp(type_):
        return _time(type_, sql)
    return f"CASE WHEN {sql} IS NOT NULL THEN trim({_text(type_, sql)}, '\"') END"


def _text(type_: pa.DataType, sql: str, depth: int = 0) -> str:
    """SQL for the JSON of a value: texts are joined, because DuckDB's own JSON would round decimals to doubles."""
    return f"coalesce({_known(type_, sql, depth)}, 'null')"


def _known(type_: pa.DataType, sql: str, depth: int) -> str:
    each = f"e{depth}"  # lambdas within lambdas need names of their own
    if pt.is_boolean(type_) or pt.is_integer(type_) or pt.is_decimal(type_):
        return f"CAST({sql} AS VARCHAR)"
    if pt.is_floating(type_):
        return (
            f"CASE WHEN isfinite({sql}) THEN CAST({sql} AS VARCHAR) WHEN isnan({sql}) THEN '\"NaN\"' "
            f"WHEN {sql} > 0 THEN '\"Infinity\"' WHEN {sql} < 0 THEN '\"-Infinity\"' END"
        )
    if pt.is_timestamp(type_):
        return f"'\"' || {_time(type_, sql)} || '\"'"
    if _is_bytes(type_):
        return f"'\"' || to_base64({sql}) || '\"'"
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        return _list(f"list_transform({sql}, lambda {each}: {_text(type_.value_type, each, depth + 1)})", "[]")
    if pt.is_map(type_):
        pair = f"to_json(CAST({each}.key AS VARCHAR)) || ':' || {_text(type_.item_type, f'{each}.value', depth + 1)}"
        return _list(f"list_transform(map_entries({sql}), lambda {each}: {pair})", "{}")
    if pt.is_struct(type_):
        fields = {field.name: f"struct_extract({sql}, {_literal(field.name)})" for field in type_}
        return f"CASE WHEN {sql} IS NOT NULL THEN {_struct(type_, fields, depth)} END"
    return f"CAST(to_json({sql}) AS VARCHAR)"


def _struct(fields: pa.Schema | pa.StructType, values: dict[str, str], depth: int = 0) -> str:
    parts = []
    for name, sql in values.items():
        lead = f"to_json({_literal(name)}) || ':' || "
        parts.append(f"{lead}{_text(fields.field(name).type, sql, depth)}")
    return "'{' || " + (" || ',' || ".join(parts) or "''") + " || '}'"


def _list(texts: str, brackets: str) -> str:
    return f"'{brackets[0]}' || array_to_string({texts}, ',') || '{brackets[1]}'"


def _time(type_: pa.TimestampType, sql: str) -> str:
    # By way of microseconds: DuckDB would need its ICU extension to know the zone of a TIMESTAMP WITH TIME ZONE.
    return f"strftime(make_timestamp(epoch_us({sql})), '{_ISO}{'Z' if type_.tz else ''}')"


def _is_plain(type_: pa.DataType) -> bool:
    return bool(pt.is_string(type_) or pt.is_large_string(type_) or _is_bytes(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_fixed_size_binary(type_))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
