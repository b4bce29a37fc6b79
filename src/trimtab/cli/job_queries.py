"""What a job file says in SQL: columns and queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from trimtab.errors import InputError, QueryError
from trimtab.language.compile import check_syntax, compile_query, source_of
from trimtab.language.compiled import Query
from trimtab.language.oracle import also_asking
from trimtab.language.schemas import parse_schema

# Spark has types that our SQL doesn't have: a stream with such columns is checked once Spark has read its schema.
_NESTED = re.compile(r"<|\b(INTERVAL|VARIANT|VOID|TIME)\b|:", re.IGNORECASE)
_TABLE = "source"

Streams = Mapping[str, tuple[pa.Schema | None, str]]
"""The columns, where they are known, and the event time of each stream."""


def is_schema(text: str) -> bool:
    """Whether the text can be a list of columns; only Spark can check nested types, so they pass.

    >>> is_schema("symbol BIGINT, tags ARRAY<STRING>"), is_schema("symbol BIGIN")
    (True, False)
    """
    try:
        return bool(parse_schema(f"{_TABLE}({text})")[1].names)
    except InputError:
        return _NESTED.search(text) is not None


def columns_of(schema: str, select: Sequence[str]) -> pa.Schema | None:
    """The columns of a source after its `select`; None if only Spark knows them.

    >>> columns_of("value BIGINT", ["value % 10 AS symbol"]).names
    ['symbol']
    """
    try:
        _, columns = parse_schema(f"{_TABLE}({schema})", zone="UTC")  # as Spark gives them to a job
        if not select:
            return columns
        made = compile_query(f"SELECT {', '.join(select)} FROM {_TABLE}", {_TABLE: columns}).finish
    except (InputError, QueryError):  # Spark may know what we don't: no mistake
        return None
    names = [name for name, _ in made.columns]
    return pa.schema(zip(names, made.types, strict=True)) if made.types else None


UNKNOWN_OPERATOR = "query.table-function"
"""The code of the error for an operator that isn't there; it may be in a module that wasn't imported."""


def known_source(sql: str, streams: Streams, *, are_operators_known: bool = True) -> str | None:
    """The stream that a query reads; None if that depends on operators that aren't known. Raises QueryError."""
    try:
        return source_of(sql, streams)
    except QueryError as error:
        if are_operators_known or error.code != UNKNOWN_OPERATOR:
            raise
        return None


def compile_known(
    sql: str, streams: Streams, *, are_operators_known: bool = True, left: list[str] | None = None
) -> Query | None:
    """Compile a query over the streams as a job does; None if only Spark can compile it. Raises QueryError.

    `are_operators_known`: False if modules with operators weren't imported. What is left unchecked is added to `left`.
    """
    left = [] if left is None else left
    source = known_source(sql, streams, are_operators_known=are_operators_known)
    if source is None:
        left.append("it calls an operator of a module that is not imported")
        return None
    columns, event_time = streams[source]
    if columns is None:
        check_syntax(sql)
        left.append(f"only Spark knows the columns of {source}")
        return None
    unknown = []

    def ask(text: str, _: pa.Schema, __: QueryError) -> None:
        unknown.append(text)

    try:
        with also_asking(ask):  # a function that DuckDB lacks may be one of Spark's, or of the user's
            return compile_query(sql, {source: columns}, event_time=event_time)
    except QueryError:
        if unknown:
            left.append(f"only Spark may know {', '.join(dict.fromkeys(unknown))}")
            return None
        raise
