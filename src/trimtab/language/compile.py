"""The front door of the language: SQL text in, a checked query out, by the passes of `PASSES`.

A mistake in the text raises a `QueryError` that says where it is and what to do. No text makes any
other exception leave this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from trimtab.errors import QueryError
from trimtab.language.compiled import Query
from trimtab.language.finish import finish
from trimtab.language.lower import lower
from trimtab.language.merge import merge
from trimtab.language.mistakes import mistake
from trimtab.language.parse import QueryText, parse
from trimtab.language.patterns import parse_pattern
from trimtab.language.resolve import resolve
from trimtab.language.unnest import unnest

PASSES: tuple[Callable[[Any], Any], ...] = (
    parse,  # text -> syntax tree
    unnest,  # -> a chain of steps over one table
    merge,  # -> the relation that the operator reads
    resolve,  # -> the operator, names resolved
    lower,  # -> the engine's description, over columns that the intake computes
    finish,  # -> what the SELECTs around it make of the operator's output, as plain data
)
"""From text to `Query`, for every kind of query: each takes what the one before it returns, and knows no later one."""


def compile_query(
    sql: str, tables: Mapping[str, pa.Schema], *, fold_labels: bool = True, event_time: str | None = None
) -> Query:
    """Check a query against the tables it may read, and compile it.

    `fold_labels`: CLASSIFIER() returns unquoted labels in upper case, as ISO says; otherwise as they are written.
    `event_time`: the source is a stream with this event-time column, and the query must be ordered by it.

    >>> tables = {"t": pa.schema([("price", pa.int64())])}
    >>> query = compile_query("SELECT price * 2 AS double FROM t", tables)
    >>> query.intake.columns, query.finish.columns
    ((('__c0', 'price * 2'),), (('double', '__c0'),))

    Raises QueryError.
    """
    with _as_mistakes(sql):
        value: Any = QueryText(sql, tables, event_time, fold_labels)
        for each in PASSES:
            value = each(value)
    query: Query = value
    return query


def source_of(sql: str, tables: Iterable[str]) -> str:
    """The table that a query reads, found from the query's text alone: columns may be wrong or unknown.

    >>> source_of("WITH cheap AS (SELECT * FROM Ticks WHERE price < 2) SELECT * FROM cheap", ["orders", "ticks"])
    'ticks'

    Raises the QueryError that `compile_query` raises for the same text and tables.
    """
    with _as_mistakes(sql):
        return unnest(parse(QueryText(sql, dict.fromkeys(tables, pa.schema([]))))).source


def check_syntax(sql: str) -> None:
    """Check what can be checked of a query without its tables: that it is SQL, and that its patterns can be read.

    Raises the QueryError that `compile_query` would raise.
    """
    with _as_mistakes(sql):
        for start, text in parse(QueryText(sql, {})).patterns.items():
            parse_pattern(sql, start, text)


@contextmanager
def _as_mistakes(sql: str) -> Iterator[None]:
    """Turn any exception raised inside the block into a QueryError."""
    try:
        yield
    except (QueryError, ImportError):
        raise
    except RecursionError:
        raise mistake(sql, "query.too-large", "the query is nested too deeply", None, "reduce the nesting") from None
    except Exception as error:
        # sqlglot raises exceptions of all kinds for odd text: whichever it was, the text is at fault.
        raise mistake(sql, "query.syntax", f"the query can't be read: {type(error).__name__}: {error}") from error
