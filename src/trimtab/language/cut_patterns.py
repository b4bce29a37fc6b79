"""Take the text of row patterns out of a query before sqlglot reads it.

A pattern is not SQL: `$$`, `{-`, `??` and `||` mean other things to a tokenizer. Blanks of the same
length take its place, so every offset stays valid.
"""

from __future__ import annotations

import re

from trimtab.language.mistakes import mistake

# First strings, quoted names and comments, because parentheses and words inside them don't count.
_PIECE = re.compile(
    r"""
    (?P<skip> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*` | --[^\n]* | /\*.*?\*/ )
    | (?P<word> \w+ )
    | (?P<mark> [()] )
    """,
    re.VERBOSE | re.DOTALL,
)
# Inside a pattern there are no strings, and a quote is a mistake that the pattern's own parser reports.
_PATTERN_PIECE = re.compile(r"`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|[()]", re.DOTALL)


def blanked(sql: str) -> str:
    """The text with blanks instead of strings, quoted names and comments.

    >>> blanked("SELECT 'a' AS b -- c")
    'SELECT     AS b     '
    """
    return _PIECE.sub(lambda found: " " * len(found[0]) if found["skip"] else found[0], sql)


def cut_patterns(sql: str) -> tuple[str, dict[int, str]]:
    """The query with blanks between the parentheses of every PATTERN clause, and what was there, by its offset.

    >>> cut_patterns("t MATCH_RECOGNIZE (PATTERN (A {- B -}))")
    ('t MATCH_RECOGNIZE (PATTERN (         ))', {28: 'A {- B -}'})
    """
    patterns: dict[int, str] = {}
    depth, opens_at, clauses = 0, -1, list[int]()
    at = 0
    while found := _PIECE.search(sql, at):
        at = found.end()
        match found.lastgroup, found[0].upper():
            case "mark", "(":
                depth += 1
                if opens_at == found.start():
                    clauses.append(depth)
            case "mark", _:
                if clauses and clauses[-1] == depth:
                    clauses.pop()
                depth -= 1
            case "word", "MATCH_RECOGNIZE":
                opens_at = _next_paren(sql, at)
            case "word", "PATTERN" if clauses and clauses[-1] == depth:
                paren = _next_paren(sql, at)
                if paren >= 0:
                    at = _closing(sql, paren)
                    patterns[paren + 1] = sql[paren + 1 : at]
    for start, text in patterns.items():
        blanks = re.sub(r"[^\n]", " ", text)
        sql = sql[:start] + blanks + sql[start + len(text) :]
    return sql, patterns


def _next_paren(sql: str, at: int) -> int:
    """The offset of the opening parenthesis that follows, after blanks and comments; -1 if none follows."""
    found = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*\(", re.DOTALL).match(sql, at)
    return found.end() - 1 if found else -1


def _closing(sql: str, opening: int) -> int:
    depth = 0
    for found in _PATTERN_PIECE.finditer(sql, opening):
        depth += (found[0] == "(") - (found[0] == ")")
        if depth == 0:
            return found.start()
    message = "the parenthesis of PATTERN is never closed"
    raise mistake(sql, "query.syntax", message, (opening, opening + 1), "add the missing )")
