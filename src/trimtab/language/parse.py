"""Pass 1, `parse`: from text to a syntax tree.

Before: any text. After: one statement of the dialect (`dialect.py`), not yet checked against anything; the patterns of
its MATCH_RECOGNIZEs are kept apart as texts by the offset at which they start, and the clause holds that offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from trimtab.errors import QueryError
from trimtab.language.cut_patterns import cut_patterns
from trimtab.language.dialect import Trimtab
from trimtab.language.mistakes import Span, mistake

MAX_LENGTH = 200_000  # characters; no one writes more by hand, and parsing is slow


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query before any pass: its text, the tables that it may read, and two options.

    `event_time`: the source is a stream with this event-time column. `fold_labels`: CLASSIFIER() returns unquoted
    labels in upper case.
    """

    sql: str
    tables: Mapping[str, pa.Schema]
    event_time: str | None = None
    fold_labels: bool = True


@dataclass(frozen=True, slots=True)
class Parsed:
    """The statement as a tree, and the texts of its patterns by offset."""

    text: QueryText
    tree: exp.Expr
    patterns: Mapping[int, str]


def parse(text: QueryText) -> Parsed:
    """Read one statement. Raises QueryError `query.syntax` or `query.too-large`."""
    sql = text.sql
    if len(sql) > MAX_LENGTH:
        raise mistake(sql, "query.too-large", f"the query has more than {MAX_LENGTH:,} characters")
    cut = cut_patterns(sql)
    try:
        trees = [tree for tree in Trimtab().parse(cut.sql) if tree is not None]
    except (ParseError, TokenError) as error:
        raise _syntax_mistake(sql, error) from error
    if not trees:
        raise mistake(sql, "query.syntax", "there is no query", None, "write SELECT ... FROM ...")
    if len(trees) > 1:
        raise mistake(sql, "query.syntax", "there are several statements", trees[1], "give one")
    return Parsed(text, trees[0], cut.patterns)


def _syntax_mistake(sql: str, error: ParseError | TokenError) -> QueryError:
    """The error that sqlglot raised as one of ours, with its place underlined."""
    if isinstance(error, TokenError):
        return mistake(sql, "query.syntax", "the text can't be read as SQL", (error.start or 0, error.end or 0))
    return _unclosed_pattern(sql) or _parse_error(sql, error)


def _unclosed_pattern(sql: str) -> QueryError | None:
    """A pattern whose closing parenthesis was forgotten runs into the clauses after it."""
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
