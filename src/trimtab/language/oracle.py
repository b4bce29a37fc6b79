"""The type oracle: the type of an expression by rule, or by asking DuckDB where no rule applies.

It also reports the mistakes that only a function library can find: functions that don't exist,
operands of types that don't go together. And it folds constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import UnsupportedError
from sqlglot.parsers.spark import SparkParser

from trimtab.errors import QueryError
from trimtab.language.fold import fold
from trimtab.language.mistakes import BEFORE, did_you_mean, instead_of, mistake
from trimtab.rowwise import duck
from trimtab.rowwise.types import infer

_NOT_ROW_LOCAL: dict[str, type[exp.Expr] | tuple[type[exp.Expr], ...]] = {
    "a sub-query": exp.Query,
    "a window function": exp.Window,
    "an aggregate": exp.AggFunc,
    "a function that makes rows": (exp.Explode, exp.Unnest),
    "a star": exp.Star,
    "FILTER": exp.Filter,
    "IGNORE NULLS": exp.IgnoreNulls,
    "RESPECT NULLS": exp.RespectNulls,
    "WITHIN GROUP": exp.WithinGroup,
    "ORDER BY": exp.Order,
    "DISTINCT": exp.Distinct,
    "an alias": exp.Alias,
    "a placeholder": exp.Placeholder,
    "a parameter": exp.Parameter,
}
_FUNCTIONS = tuple(name.lower() for name in SparkParser.FUNCTIONS if name.isidentifier())
_Answered = TypeVar("_Answered")


def type_of(sql: str, expression: exp.Expr, schema: pa.Schema) -> pa.DataType:
    """The Arrow type of a row-local expression over the columns of a schema. Raises QueryError, placed in `sql`."""
    check_row_local(sql, expression)

    def column(node: exp.Column) -> pa.DataType | None:
        at = schema.get_field_index(node.name)
        return schema.types[at] if at >= 0 else None

    known = infer(expression, column)
    if known is not None:
        return known
    try:
        return _asked(sql, expression, lambda: duck.type_of_translated(duck.translate_tree(expression, schema), schema))
    except QueryError as mistake_here:
        another = _ANOTHER.get()
        found = None if another is None else another(expression.sql(dialect="spark"), schema, mistake_here)
        if found is None:
            raise
        return found


Oracle = Callable[[str, pa.Schema, QueryError], pa.DataType | None]
"""Gives the type of a Spark SQL expression over a schema, or None if it doesn't know it either: then the
QueryError, made from DuckDB's error, is raised."""
_ANOTHER: ContextVar[Oracle | None] = ContextVar("another oracle", default=None)


@contextmanager
def also_asking(another: Oracle) -> Iterator[None]:
    """Ask another oracle where DuckDB has no answer: a Spark session knows functions that DuckDB lacks."""
    token = _ANOTHER.set(another)
    try:
        yield
    finally:
        _ANOTHER.reset(token)


_CHANGING = (
    *(exp.Rand, exp.Randn, exp.Uniform, exp.Randstr, exp.Shuffle, exp.Uuid),
    *(exp.CurrentTimestamp, exp.CurrentTimestampLTZ, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime),
    *(exp.Localtimestamp, exp.Localtime, exp.CurrentTimezone, exp.CurrentUser, exp.SessionUser, exp.CurrentRole),
    *(exp.CurrentDatabase, exp.CurrentSchema, exp.CurrentSchemas, exp.CurrentCatalog, exp.Version),
)
_CHANGING_NAMES = frozenset(
    (
        *("random", "now", "today", "age", "localtimestamp", "current_timezone", "shuffle", "setseed"),
        *("uuidv4", "uuidv7", "gen_random_uuid", "monotonically_increasing_id", "spark_partition_id", "user"),
        *("session_user", "version", "current_setting", "getvariable", "get_current_timestamp"),
        *("get_current_time", "transaction_timestamp", "current_localtime", "current_localtimestamp"),
        *("curtime", "txid_current", "nextval", "currval", "current_query", "current_query_id"),
        *("pg_backend_pid", "input_file_name", "input_file_block_start", "input_file_block_length"),
    )
)
"""Functions of Spark and of DuckDB whose result isn't that of a row: of chance, the clock, the user, or the file."""
_MOMENTS = frozenset(("now", "today", "tomorrow", "yesterday"))
"""Texts that become a time by the clock."""


CHANGING_HINT = "use the event time column, or compute it into a column first"


def check_row_local(sql: str, expression: exp.Expr) -> None:
    """Raise `query.row-wise` where the expression needs more than one row."""
    for node in expression.walk():
        check_node(sql, node)


def check_node(sql: str, node: exp.Expr) -> None:
    """As `check_row_local`, for one node without its operands."""
    for what, kind in _NOT_ROW_LOCAL.items():
        if isinstance(node, kind):
            message = f"{what} isn't allowed here: the expression is computed row by row"
            hint = f"join its result to the rows as a column, {BEFORE}" if what == "a sub-query" else ""
            raise mistake(sql, "query.row-wise", message, node, hint)
    if _is_changing(node):
        message = "this gives another answer at another time or place, so a batch that is repeated would differ"
        raise mistake(sql, "query.changing", message, node, CHANGING_HINT)


def _is_changing(node: exp.Expr) -> bool:
    """Whether the same row may give something else another time, or elsewhere."""
    if isinstance(node, exp.Cast):
        text = node.this
        is_moment = isinstance(text, exp.Literal) and text.is_string and text.name.strip().lower() in _MOMENTS
        return is_moment and node.to.this in exp.DataType.TEMPORAL_TYPES
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _CHANGING_NAMES
    return isinstance(node, _CHANGING)


def constant(sql: str, expression: exp.Expr) -> tuple[object, pa.DataType]:
    """The value and type of an expression without columns."""
    known = fold(expression)
    if known is not None:
        return known
    check_row_local(sql, expression)
    answer = _answer(sql, expression, pa.table({"unused": pa.nulls(1)}))
    return answer[0].as_py(), answer.type


def value_over_nulls(sql: str, expression: exp.Expr, types: Sequence[tuple[str, pa.DataType]]) -> object:
    """The value of an expression where all its columns are null."""
    row = pa.table([pa.nulls(1, type_) for _, type_ in types], schema=pa.schema(list(types)))
    value: object = _answer(sql, expression, row)[0].as_py()
    return value


def _answer(sql: str, expression: exp.Expr, row: pa.Table) -> pa.ChunkedArray:
    """The expression over a table of one row."""
    (answer,) = _asked(sql, expression, lambda: duck.run_translated(row, [duck.translate_tree(expression, row.schema)]))
    return answer


def _asked(sql: str, expression: exp.Expr, question: Callable[[], _Answered]) -> _Answered:
    """DuckDB's answer; its errors become a QueryError."""
    import duckdb  # here, so that a query which needs no answer never loads it

    try:
        return question()
    except UnsupportedError as error:
        raise mistake(sql, "query.function", f"this can't be computed here: {error}", expression) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise _as_mistake(sql, expression, str(error)) from error


def _as_mistake(sql: str, expression: exp.Expr, text: str) -> QueryError:
    first = text.split("\n", 1)[0]
    if found := re.search(r"Function with name \"?(\w+)\"? does not exist", text):
        name = found[1]
        node = next((f for f in expression.find_all(exp.Func) if _is_called(f, name)), expression)
        if name.lower() in _FUNCTIONS:
            message = f"the function {name} works on Spark only, and there in a sub-select"
            return mistake(sql, "query.function", message, node, "write FROM (SELECT *, f(x) AS y FROM t) and use y")
        hint = instead_of(name) or did_you_mean(name, _FUNCTIONS, otherwise="any scalar function of Spark SQL")
        return mistake(sql, "query.function", f"there is no function {name}", node, hint)
    message = re.sub(r"^\w+ Error: ", "", first).rstrip(".")
    return mistake(sql, "query.type", f"this can't be computed: {message}", expression)


def _is_called(function: exp.Func, name: str) -> bool:
    if isinstance(function, exp.Anonymous):
        return function.name.lower() == name.lower()
    return name.upper() in function.sql_names()
