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
from trimtab.language.cut_patterns import blanked, cut_patterns
from trimtab.language.dialect import Trimtab
from trimtab.language.mistakes import Span, mistake, nearest

MAX_LENGTH = 200_000  # characters; no one writes more by hand, and parsing is slow
_CALLED = re.compile(r"\b(MATCH\s+RECOGNIZE|\w+)(?=\s*\()", re.IGNORECASE)
"""A word, or MATCH RECOGNIZE as two, before a parenthesis."""
_IN_OUR_WORDS = (
    (r"^.*missing for <class .*$", "something is missing"),
    (r"^Invalid expression / Unexpected token", "this isn't expected here"),
    (r" but got <Token.*$", ""),  # the token is underlined
    (r"^[A-Z](?=[a-z])", lambda found: found[0].lower()),
)
"""What replaces sqlglot's words in its messages."""


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
    rest, patterns = cut_patterns(sql)
    try:
        trees = [tree for tree in Trimtab().parse(rest) if tree is not None]
    except (ParseError, TokenError) as error:
        raise _syntax_mistake(sql, error) from error
    if not trees:
        raise mistake(sql, "query.syntax", "there is no query", None, "write SELECT ... FROM ...")
    if len(trees) > 1:
        raise mistake(sql, "query.syntax", "there are several statements", trees[1], "give one")
    return Parsed(text, trees[0], patterns)


def _syntax_mistake(sql: str, error: ParseError | TokenError) -> QueryError:
    """The error that sqlglot raised as one of ours, with its place underlined."""
    if found := _misspelled_word(sql) or _unclosed_pattern(sql):
        return found
    return _unclosed_quote(sql) if isinstance(error, TokenError) else _parse_error(sql, error)


def _misspelled_word(sql: str) -> QueryError | None:
    """A misspelled SELECT, MATCH_RECOGNIZE or PATTERN: what follows it isn't SQL, and any other error would mislead."""
    first = re.match(r"\s*(\w+)", blanked(sql))
    if first and first[1].upper() != "SELECT" and nearest(first[1], ["SELECT"], 0.75):
        return mistake(sql, "query.syntax", f"{first[1]} begins no query", first.span(1), "did you mean SELECT?")
    called = list(_CALLED.finditer(blanked(sql)))
    written = {found[0].upper() for found in called}
    for word, likeness in (("MATCH_RECOGNIZE", 0.85), ("PATTERN", 0.75)):
        if word not in written:
            for found in called:
                if nearest(found[0], [word], likeness):
                    message = f"there is no clause {found[0]}"
                    return mistake(sql, "query.syntax", message, found.span(), f"did you mean {word}?")
        if "MATCH_RECOGNIZE" not in written:
            break
    return None


def _unclosed_quote(sql: str) -> QueryError:
    if found := re.search(r"['\"`]|/\*", blanked(cut_patterns(sql)[0])):
        closing = "*/" if found[0] == "/*" else found[0]
        message = f"{found[0]} is never closed"
        return mistake(sql, "query.syntax", message, found.span(), f"add the missing {closing}")
    return mistake(sql, "query.syntax", "the text can't be read as SQL")


def _unclosed_pattern(sql: str) -> QueryError | None:
    """A pattern whose closing parenthesis was forgotten runs into the clauses after it."""
    for start, text in cut_patterns(sql)[1].items():
        if clause := re.search(r"\b(DEFINE|SUBSET|WITHIN)\b", text, re.IGNORECASE):
            message = "the parenthesis of PATTERN is not closed"
            return mistake(sql, "query.syntax", message, (start - 1, start), f"close it before {clause[0].upper()}")
    return None


def _parse_error(sql: str, error: ParseError) -> QueryError:
    details = error.errors[0] if error.errors else {}
    description = str(details.get("description") or str(error).split("\n", 1)[0])
    place: Span = details.get("span") or _place(sql, details)
    found = sql[place[0] : place[1]]
    for theirs, ours in _IN_OUR_WORDS:
        description = re.sub(theirs, ours, description)
    message = re.sub(r"\s+", " ", description).strip().rstrip(".")
    return mistake(sql, "query.syntax", f"{message}, at {found}" if found else message, place, details.get("hint", ""))


def _place(sql: str, details: Mapping[str, object]) -> Span:
    """Sqlglot gives the line, and the column at which the token ends."""
    line, column = int(str(details.get("line") or 1)), int(str(details.get("col") or 0))
    starts = [0] + [i + 1 for i, char in enumerate(sql) if char == "\n"]
    stop = min(starts[min(line, len(starts)) - 1] + column, len(sql))
    length = len(str(details.get("highlight") or ""))
    return max(0, stop - max(length, 1)), stop
