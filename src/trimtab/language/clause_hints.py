"""What was probably meant where a clause of MATCH_RECOGNIZE is expected and something else is written.

Looks at the words from there on, and decides nothing: that it is a mistake is known already.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from trimtab.language.mistakes import nearest

CLAUSES = {
    **{clause.split()[0]: clause for clause in ("PARTITION BY", "ORDER BY", "AFTER MATCH SKIP")},
    "ONE": "ONE ROW PER MATCH",
    "ALL": "ALL ROWS PER MATCH",
    **{clause: clause for clause in ("MEASURES", "PATTERN", "WITHIN", "SUBSET", "DEFINE")},
}
"""The clauses by their first words."""
WITHIN_PLACE = "WITHIN goes right after PATTERN (...)"
_ORDER = (
    "the order is PARTITION BY, ORDER BY, MEASURES, ONE ROW or ALL ROWS PER MATCH, AFTER MATCH SKIP, PATTERN, WITHIN, "
    "SUBSET, DEFINE"
)
_LONG = tuple(word for word in CLAUSES if len(word) > 3)  # any short name is near to ONE or ALL


def clause_hint(tokens: Sequence[Token], last: str) -> str:
    """A hint for the first of these tokens; `last` is the list that was read before it, such as MEASURES."""
    if not tokens:
        return "close the parenthesis of MATCH_RECOGNIZE"
    here, following = tokens[0], tokens[1].text.upper() if len(tokens) > 1 else ""
    word = here.text.upper()
    if word == "WITHIN":
        return WITHIN_PLACE
    if clause := CLAUSES.get(word.split(" ")[0]):
        # Where the whole clause is written it is at the wrong place.
        is_whole = " ".join(token.text.upper() for token in tokens[: len(clause.split(" "))]).startswith(clause)
        return _ORDER if is_whole else f"did you mean {clause}?"
    if clause := misspelled_clause(here.text, following):
        return f"did you mean {clause}?"
    if last and _is_next_item(tokens, last):
        return f"put a comma before {here.text}"
    if last == "MEASURES" and (following in (",", ")") or following.split(" ")[0] in CLAUSES):
        return "a measure has a name after AS and nothing else: its type is that of the expression"
    return ""


def misspelled_clause(word: str, following: str) -> str:
    """The clause that a word was probably meant to begin; empty: none."""
    if following in (".", "AS", "=", ","):
        return ""  # a label or a column
    return CLAUSES.get(nearest(word, _LONG, 0.75), "")


def _is_next_item(tokens: Sequence[Token], last: str) -> bool:
    """Whether the tokens begin with one more item of the list."""
    following = tokens[1].token_type if len(tokens) > 1 else None
    match last:
        case "DEFINE":
            return following == TokenType.ALIAS
        case "SUBSET":
            return following == TokenType.EQ
        case "MEASURES":
            return _has_name(tokens)
        case _:  # columns
            return tokens[0].token_type == TokenType.VAR


def _has_name(tokens: Sequence[Token]) -> bool:
    """Whether AS comes before the next comma, clause or closing parenthesis."""
    depth = 0
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.ALIAS:
            return True
        if depth < 0 or (depth == 0 and (token.text == "," or token.text.upper().split(" ")[0] in CLAUSES)):
            return False
    return False
