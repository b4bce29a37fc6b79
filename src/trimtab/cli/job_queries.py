"""What a job file says in SQL: columns and queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from trimtab.cli.job_sections import StreamSection
from trimtab.cli.toml import Section
from trimtab.errors import InputError, QueryError
from trimtab.language.compile import check_syntax, compile_query, source_of
from trimtab.language.compiled import Query
from trimtab.language.mistakes import did_you_mean, listing, mistake, nearest
from trimtab.language.oracle import also_asking
from trimtab.rowwise.schemas import parse_schema
from trimtab.rowwise.types import is_time

# Spark has types that our SQL doesn't have: a stream with such columns is checked once Spark has read its schema.
_NESTED = re.compile(r"<|\b(INTERVAL|VARIANT|VOID|TIME)\b|:", re.IGNORECASE)
_TABLE = "source"
_NAME = re.compile(r"\s*`?([A-Z_]\w*)`?(\s+AS\s+`?\w+`?)?\s*", re.IGNORECASE)
# Words that Spark understands where there is no such column.
_WORDS = re.compile(r"current_\w+|session_user|user|localtimestamp|_metadata|null|true|false", re.IGNORECASE)

OWN_COLUMNS = {
    "rate": "timestamp TIMESTAMP, value BIGINT",
    "rate-micro-batch": "timestamp TIMESTAMP, value BIGINT",
    "kafka": "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT",
    "text": "value STRING",
    "socket": "value STRING",
}
"""Columns of sources that define their own; options such as Kafka's `includeHeaders` add to them."""

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


def columns_of(schema: str, select: Sequence[str], wrong: list[QueryError] | None = None) -> pa.Schema | None:
    """The columns of a source after its `select`; None if only Spark knows them.

    The error for a name that no column has is added to `wrong`; the column that was probably meant is taken instead.

    >>> columns_of("value BIGINT", ["value % 10 AS symbol"]).names
    ['symbol']
    """
    try:
        _, columns = parse_schema(f"{_TABLE}({schema})", zone="UTC")  # as Spark gives them to a job
        if not select:
            return columns
        meant = filter(None, [_meant(each, columns.names, [] if wrong is None else wrong) for each in select])
        made = compile_query(f"SELECT {', '.join(meant)} FROM {_TABLE}", {_TABLE: columns}).finish
    except (InputError, QueryError):  # Spark may know what we don't: no mistake
        return None
    names = [name for name, _ in made.columns]
    return pa.schema(zip(names, made.types, strict=True)) if made.types else None


def _meant(text: str, columns: Sequence[str], wrong: list[QueryError]) -> str:
    found = _NAME.fullmatch(text)
    if found is None or _WORDS.fullmatch(found[1]) or found[1].lower() in map(str.lower, columns):
        return text
    hint = did_you_mean(found[1], columns, otherwise=f"the columns are {listing(columns)}")
    wrong.append(mistake(text, "query.column", f"no column named {found[1]}", found.span(1), hint))
    near = nearest(found[1], columns, 0.6)
    return near and near + (found[2] or "")


def columns_known(stream: StreamSection, wrong: list[QueryError] | None = None) -> pa.Schema | None:
    """The columns that queries read, None where only Spark or a file knows them.

    Mistakes in `select` are added to `wrong`.
    """
    if stream.own is not None:
        return stream.own.columns
    has_more = any(key.lower().startswith("include") and on.lower() == "true" for key, on in stream.options.items())
    schema = stream.schema or (None if has_more else OWN_COLUMNS.get(stream.format))
    return None if schema is None else columns_of(schema, stream.select, wrong)


def known_streams(streams: Iterable[StreamSection]) -> Streams:
    """What is known about streams without Spark, for `compile_known`."""
    return {each.name: (columns_known(each), each.event_time) for each in streams}


def check_columns(section: Section, stream: StreamSection, columns: pa.Schema | None) -> None:
    """Note mistakes in the schema and in `select`, and settings that name no column."""
    if stream.schema is not None and not is_schema(stream.schema):
        section.wrong("schema", "it can't be read", 'write names and types: "symbol BIGINT, ts TIMESTAMP"')
        return
    wrong: list[QueryError] = []
    columns_known(stream, wrong)
    for error in wrong:
        place = f"select[{stream.select.index(error.sql)}]"
        error.where = section.at(place)
        section.wrong(place, str(error))
    if columns is None:
        return
    by_name = {each.name.lower(): each for each in columns}
    for key, name in (("event_time", stream.event_time), ("partition_by", stream.time.get("partition_by"))):
        if name is not None and name.lower() not in by_name:
            hint = did_you_mean(name, columns.names, otherwise=f"the columns are {', '.join(columns.names)}")
            section.wrong(key, f"there is no column {name}", hint)
    found = by_name.get(stream.event_time.lower())
    if found is not None and not is_time(found.type):
        hint = "cast it in select: CAST(... AS TIMESTAMP)" if stream.own is None else "declare it as TIMESTAMP"
        section.wrong("event_time", f"column {found.name} is {found.type}, not a time", hint)


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
        left.append(f"the columns of {source} are known when it is read")
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
