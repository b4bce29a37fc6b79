"""The front door of the language: SQL text in, a checked query out.

Every mistake in the text is one `QueryError` that says where and what to do; no other exception
leaves here, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from trimtab.errors import QueryError
from trimtab.language.compiled import Query
from trimtab.language.cut_patterns import Cut, cut_patterns
from trimtab.language.dialect import Trimtab
from trimtab.language.mistakes import Span, mistake
from trimtab.language.patterns import parse_pattern
from trimtab.language.selects import Reader

MAX_LENGTH = 200_000  # characters; no one writes more by hand, and parsing is slow


def compile_query(
    sql: str,
    tables: Mapping[str, pa.Schema],
    *,
    fold_labels: bool = True,
    event_time: str | None = None,
) -> Query:
    """Check a query against the tables it may read, and compile it.

    `fold_labels`: CLASSIFIER() answers unquoted labels in upper case, as ISO says; otherwise as
    they are written. `event_time`: the source is a stream with this event-time column, and the
    query has to be in its order.

    >>> tables = {"t": pa.schema([("price", pa.int64())])}
    >>> query = compile_query("SELECT price * 2 AS double FROM t", tables)
    >>> query.intake.columns, query.finish.columns
    ((('__c0', 'price * 2'),), (('double', '__c0'),))

    Raises QueryError.
    """
    with _as_mistakes(sql):
        cut, tree = _parse(sql)
        return Reader(sql, tables, cut.patterns, fold_labels, event_time).query(tree)


def check_syntax(sql: str) -> None:
    """Check what can be checked of a query without its tables: that it is SQL, and that its patterns can be read.

    Raises QueryError, the same as `compile_query`.
    """
    with _as_mistakes(sql):
        cut, _ = _parse(sql)
        for start, text in cut.patterns.items():
            parse_pattern(sql, start, text)


@contextmanager
def _as_mistakes(sql: str) -> Iterator[None]:
    """Whatever is raised inside the block as a QueryError."""
    try:
        yield
    except QueryError:
        raise
    except RecursionError:
        message = "the query is nested too deeply"
        raise mistake(sql, "query.too-large", message, None, "take it apart") from None
    except ParseError as error:
        raise _unclosed_pattern(sql) or _parse_error(sql, error) from error
    except TokenError as error:
        place = (error.start or 0, error.end or 0)
        raise mistake(sql, "query.syntax", "the text can't be read as SQL", place) from error
    except ImportError:
        raise
    except Exception as error:
        # sqlglot meets odd text with exceptions of all kinds: whatever it was, the text is at fault.
        message = f"the query can't be read: {type(error).__name__}: {error}"
        raise mistake(sql, "query.syntax", message) from error


def _parse(sql: str) -> tuple[Cut, exp.Expr]:
    if len(sql) > MAX_LENGTH:
        message = f"the query has more than {MAX_LENGTH:,} characters"
        raise mistake(sql, "query.too-large", message)
    cut = cut_patterns(sql)
    trees = [tree for tree in Trimtab().parse(cut.sql) if tree is not None]
    if not trees:
        raise mistake(sql, "query.syntax", "there is no query", None, "write SELECT ... FROM ...")
    if len(trees) > 1:
        raise mistake(sql, "query.syntax", "there are several statements", trees[1], "give one")
    return cut, trees[0]


def _unclosed_pattern(sql: str) -> QueryError | None:
    """A pattern whose closing parenthesis was forgotten runs into the clauses behind it."""
    for start, text in cut_patterns(sql).patterns.items():
        if clause := re.search(r"\b(DEFINE|SUBSET|WITHIN)\b", text, re.IGNORECASE):
            message = "the parenthesis of PATTERN is not closed"
            return mistake(sql, "query.syntax", message, (start - 1, start), f"close it before {clause[0].upper()}")
    return None


def _parse_error(sql: str, error: ParseError) -> QueryError:
    details = error.errors[0] if error.errors else {}
    description = str(details.get("description") or str(error).split("\n", 1)[0])
    place = _place(sql, details)
    found = sql[place[0] : place[1]]
    if missing := re.search(r"missing for <class '[\w.]*?(\w+)'>", description):
        description = f"{missing[1].upper()} is incomplete"
    message = re.sub(r"\s+", " ", description).strip().rstrip(".")
    message = message[:1].lower() + message[1:]
    return mistake(sql, "query.syntax", f"{message}, at {found}" if found else message, place)


def _place(sql: str, details: Mapping[str, object]) -> Span:
    """Sqlglot gives the line, and the column at which the token ends."""
    line, column = int(str(details.get("line") or 1)), int(str(details.get("col") or 0))
    starts = [0] + [i + 1 for i, char in enumerate(sql) if char == "\n"]
    stop = min(starts[min(line, len(starts)) - 1] + column, len(sql))
    length = len(str(details.get("highlight") or ""))
    return max(0, stop - max(length, 1)), stop
