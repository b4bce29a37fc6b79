"""Partitions of a table of files: folders named by the values of columns, as Hive and Spark have them.

`day=2030-01-01/hour=7/` has rows with these values, and the files there lack the two columns. Null and the empty text
are both `__HIVE_DEFAULT_PARTITION__`, which readers take for null.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import Int64Array, plain, plain_type
from trimtab.errors import JobError

Parts = tuple[str, ...]
"""The names of folders, one in the other."""
Values = tuple[object, ...]
"""Values of the columns that a table has partitions by."""

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = {*map(chr, range(1, 32)), *"\"#%'*/:=?\\{}[]^\x7f"}  # as Spark does it


def raise_if_unsuitable(by: Sequence[str], columns: Sequence[str], what: str) -> None:
    """Raise JobError `job.sink` unless `by` names columns, each once, and others are left."""
    if missing := [name for name in by if name not in columns]:
        message = f"{what} can't have partitions by {', '.join(missing)}: there is no such column"
        raise JobError("job.sink", message, f"the columns are {', '.join(columns)}")
    if len(set(by)) < len(by):
        raise JobError("job.sink", f"{what} has partitions by {', '.join(by)}", "name each column once")
    if by and not set(columns) - set(by):
        message = f"{what} has partitions by all columns, and nothing would be left to write"
        raise JobError("job.sink", message, "leave one of them out")


def partitioned(table: pa.Table, by: Sequence[str]) -> Iterator[tuple[Parts, pa.Table]]:
    """The rows of each partition, in their order and without the columns `by`; in the order of their first rows.

    Raises JobError `job.sink` for columns whose values can't name folders.

    >>> for parts, rows in partitioned(pa.table({"k": ["a", "b", "a"], "n": [1, 2, 3]}), ["k"]):
    ...     print(parts, rows.to_pydict())
    ('k=a',) {'n': [1, 3]}
    ('k=b',) {'n': [2]}
    """
    rows: dict[Parts, list[Int64Array]] = {}  # different values may have one name: null and the empty text
    for values, own in _groups(table, by):
        rows.setdefault(folders(by, values), []).append(own)
    merged = {name: np.sort(np.concatenate(own)) for name, own in rows.items()}
    rest = table.drop_columns(list(by))
    for name, own in sorted(merged.items(), key=lambda pair: pair[1][0]):
        yield name, rest.take(pa.array(own))


def with_values(table: pa.Table, by: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """The rows that have the same values in the columns `by`, in their order and without these columns, and the values.

    Raises JobError `job.sink` for columns whose values can't name folders.

    >>> for values, rows in with_values(pa.table({"k": ["a", None, "a"], "n": [1, 2, 3]}), ["k"]):
    ...     print(values, rows.to_pydict())
    ('a',) {'n': [1, 3]}
    (None,) {'n': [2]}
    """
    rest = table.drop_columns(list(by))
    for values, own in sorted(_groups(table, by), key=lambda pair: pair[1][0]):
        yield values, rest.take(pa.array(own))


def folders(by: Sequence[str], values: Values) -> Parts:
    """The names of the folders for these values of the columns.

    >>> folders(["day", "k"], (datetime.date(2030, 1, 1), "a/b"))
    ('day=2030-01-01', 'k=a%2Fb')
    """
    return tuple(f"{_escaped(column)}={_text(value)}" for column, value in zip(by, values, strict=True))


def _groups(table: pa.Table, by: Sequence[str]) -> list[tuple[Values, Int64Array]]:
    """The numbers of the rows of each combination of values, ascending; none for a table without rows."""
    codes = np.zeros(table.num_rows, np.int64)
    found: list[Values] = [()]
    for column in by:
        encoded = pc.dictionary_encode(plain(table[column]), null_encoding="encode")
        _check_type(column, encoded.dictionary.type)
        own = _values(column, encoded.dictionary)
        codes = codes * len(own) + encoded.indices.to_numpy()
        kept, codes = np.unique(codes, return_inverse=True)
        found = [(*found[code // len(own)], own[code % len(own)]) for code in kept.tolist()]
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(found)))
    return list(zip(found, np.split(order, ends[:-1]), strict=True)) if table.num_rows else []


def _values(column: str, distinct: pa.Array) -> list[object]:
    try:
        values: list[object] = distinct.to_pylist()
    except OverflowError as error:
        message = f"there can be no partitions by {column}: it has times before the year 1 or after 9999"
        raise JobError("job.sink", message, "leave such rows out in the query, or name another column") from error
    return values


def _check_type(column: str, kind: pa.DataType) -> None:
    types, kind = pa.types, plain_type(kind)
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_number = types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    if not (is_text or is_number or types.is_date(kind) or types.is_timestamp(kind) or types.is_null(kind)):
        message = f"there can be no partitions by {column}, which is {kind}"
        raise JobError("job.sink", message, "texts, whole numbers, decimals, booleans, dates and times name folders")


def _text(value: object) -> str:
    match value:
        case None | "":
            return NULL
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return _escaped(value.replace(tzinfo=None).isoformat(sep=" "))
        case _:
            return _escaped(str(value))


def _escaped(text: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in text)
