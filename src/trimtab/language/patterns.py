"""Row patterns: from text to the tree that the engine runs.

A small lexer and a recursive descent over the grammar of ISO 9075-2, with the one new word TIMEOUT.
Labels get their numbers in the order in which they are first written.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from trimtab.engine.match.compile.program import has_one_way
from trimtab.engine.match.ir.pattern import Alternate, Anchor, At, Concat, Exclude, Label, Pattern, Permute, Quantify
from trimtab.errors import QueryError
from trimtab.language.mistakes import Span, mistake

MAX_OCCURRENCES = 10_000  # the engine makes a state for each
MAX_PERMUTED = 8
MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | --[^\n]* | /\*.*?\*/ )
    | (?P<quoted> `(?:[^`]|``)+` )
    | (?P<name> [^\W\d]\w* )
    | (?P<number> \d+ )
    | (?P<mark> \{- | -\} | [(){}|*+?,^$] )
    """,
    re.VERBOSE | re.DOTALL,
)
_FOLLOWS = "A B is A and then B"
_STARTS = {"(", "{-", "^", "$"}
_ANCHORS = {"^": Anchor.START, "$": Anchor.END}
_SIMPLE = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_QUANTIFIERS = {*_SIMPLE, "{"}
_END = "end"  # the kind of the token after the last one


@dataclass(frozen=True, slots=True)
class Name:
    """A label as it is written; `identity` is what two spellings of the same label share."""

    identity: str
    written: str
    span: Span


def identity(name: str, quoted: bool) -> str:
    """What spellings of the same label share: case doesn't matter in unquoted labels, and does in quoted ones."""
    return name if quoted else name.upper()


@dataclass(frozen=True, slots=True)
class ParsedPattern:
    """The tree, and its labels: `labels[i]` is what `Label(i)` stands for.

    `exclusion` and `timeout` are the places of the first `{-` and the first TIMEOUT, if there are any.
    """

    pattern: Pattern
    labels: tuple[Name, ...]
    exclusion: Span | None = None
    timeout: Span | None = None


def parse_pattern(sql: str, start: int, text: str) -> ParsedPattern:
    """Parse the pattern that begins in `sql` at `start`.

    >>> parse_pattern("A b+?", 0, "A b+?").pattern
    Concat(items=(Label(index=0), Quantify(item=Label(index=1), low=1, high=None, greedy=False)))

    Raises QueryError `query.syntax`, `query.quantifier` or `query.too-large`.
    """
    parser = _Parser(sql, start, start + len(text), _tokens(sql, start, text))
    pattern = parser.whole()
    labels = tuple(parser.labels.values())
    return ParsedPattern(pattern, labels, parser.first.get("{-"), parser.first.get("TIMEOUT"))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    span: Span


def _tokens(sql: str, start: int, text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            place = (start + at, start + at + 1)
            hint = _FOLLOWS if text[at:].startswith("->") else _hint(text)
            raise mistake(sql, "query.syntax", f"{text[at]} means nothing in a pattern", place, hint)
        if found.lastgroup != "space":
            tokens.append(_Token(str(found.lastgroup), found[0], (start + at, start + found.end())))
        at = found.end()
    return [*tokens, _Token(_END, "", (start + at, start + at + 1))]


def _hint(text: str) -> str:
    """A clause inside the pattern means that its parenthesis was closed too late."""
    found = re.search(r"\b(DEFINE|SUBSET|WITHIN)\b", text, re.IGNORECASE)
    return f"is a ) missing before {found[0]}?" if found else ""


@dataclass(slots=True)
class _Parser:
    sql: str
    start: int
    stop: int
    tokens: list[_Token]
    at: int = 0
    depth: int = 0
    labels: dict[str, Name] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    first: dict[str, Span] = field(default_factory=dict)

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def whole(self) -> Pattern:
        pattern = Concat(()) if self.token.kind == _END else self.alternation()
        if self.token.kind != _END:
            raise self.unexpected()
        if _size(pattern) > MAX_OCCURRENCES:
            raise self.too_large(f"the pattern unfolds to more than {MAX_OCCURRENCES:,} labels")
        return pattern

    def alternation(self) -> Pattern:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.too_large(f"the pattern is nested more than {MAX_DEPTH} deep")
        items = [self.concatenation()]
        while self.take("|"):
            items.append(self.concatenation())
        self.depth -= 1
        return items[0] if len(items) == 1 else Alternate(tuple(items))

    def concatenation(self) -> Pattern:
        items = []
        while self.token.kind in ("name", "quoted") or self.token.text in _STARTS:
            items.append(self.factor())
        if not items:
            raise self.unexpected()
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def factor(self) -> Pattern:
        item = self.primary()
        begin = self.token
        if begin.text not in _QUANTIFIERS:
            return item
        self.at += 1
        low, high = _SIMPLE[begin.text] if begin.text in _SIMPLE else self.bounds(begin)
        greedy = not self.take("?")
        if self.token.text in _QUANTIFIERS:
            place, hint = (begin.span[0], self.token.span[1]), "put the first one in parentheses, as in (A+){2}"
            raise self.error("query.quantifier", "a quantifier can't follow a quantifier", place, hint)
        return Quantify(item, low, high, greedy)

    def bounds(self, begin: _Token) -> tuple[int, int | None]:
        low = self.number()
        high = low
        if comma := self.take(","):
            high = self.number()
        if not self.take("}"):
            raise self.unexpected("a quantifier is {n}, {n,}, {,m} or {n,m}")
        place = (begin.span[0], self.tokens[self.at - 1].span[1])
        if not comma and low is None:
            raise self.error("query.quantifier", "the quantifier has no number", place)
        if high == 0:
            hint = "the largest count is at least 1"
            raise self.error("query.quantifier", "at most zero times is never", place, hint)
        if high is not None and high < (low or 0):
            message, hint = f"at least {low} and at most {high} can't both hold", f"did you mean {{{high},{low}}}?"
            raise self.error("query.quantifier", message, place, hint)
        return low or 0, high

    def number(self) -> int | None:
        token = self.token
        if token.kind != "number":
            return None
        self.at += 1
        if len(token.text) > 9:
            raise self.too_large(f"{token.text} repetitions are too many", token.span)
        return int(token.text)

    def primary(self) -> Pattern:
        token = self.token
        self.at += 1
        if token.text in _ANCHORS:
            return At(_ANCHORS[token.text])
        if token.text == "(":
            return self.group(token)
        if token.text == "{-":
            self.first.setdefault("{-", token.span)
            inner = self.alternation()
            self.expect("-}", token)
            return Exclude(inner)
        word = token.text.upper() if token.kind == "name" else ""
        if word == "TIMEOUT":
            self.first.setdefault("TIMEOUT", token.span)
            return At(Anchor.TIMEOUT)
        if word == "PERMUTE" and self.token.text == "(":
            return self.permutation(token)
        return self.label(token)

    def group(self, opening: _Token) -> Pattern:
        if self.take(")"):
            return Concat(())
        inner = self.alternation()
        self.expect(")", opening)
        return inner

    def permutation(self, word: _Token) -> Pattern:
        self.at += 1
        items = [self.alternation()]
        while self.take(","):
            items.append(self.alternation())
        self.expect(")", word)
        if len(items) > MAX_PERMUTED:
            place = (word.span[0], self.tokens[self.at - 1].span[1])
            raise self.too_large(f"PERMUTE takes at most {MAX_PERMUTED} patterns, not {len(items)}", place)
        return items[0] if len(items) == 1 else Permute(tuple(items))

    def label(self, token: _Token) -> Pattern:
        quoted = token.kind == "quoted"
        written = token.text[1:-1].replace("``", "`") if quoted else token.text
        name = Name(identity(written, quoted), written, token.span)
        self.labels.setdefault(name.identity, name)
        return Label(self.numbers.setdefault(name.identity, len(self.numbers)))

    def take(self, text: str) -> bool:
        if self.token.text != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str, opening: _Token) -> None:
        if not self.take(text):
            if self.token.kind != _END:
                raise self.unexpected()
            raise self.error("query.syntax", f"{opening.text} is never closed", opening.span, f"add the missing {text}")

    def unexpected(self, hint: str = "") -> QueryError:
        token = self.token
        if token.kind == _END:
            return self.error("query.syntax", "the pattern ends too early", token.span, hint)
        if not hint and token.text in ("|", ","):
            hint = "write () for an empty pattern" if token.text == "|" else _FOLLOWS
        message = f"{token.text} isn't allowed here in a pattern"
        return self.error("query.syntax", message, token.span, hint or _hint(self.sql[self.start : self.stop]))

    def too_large(self, message: str, place: Span | None = None) -> QueryError:
        place = place or (self.start, self.stop)
        return self.error("query.too-large", message, place, "use * or +, or count with an aggregate")

    def error(self, code: str, message: str, place: Span, hint: str = "") -> QueryError:
        return mistake(self.sql, code, message, place, hint)


def _size(pattern: Pattern) -> int:
    """How many labels and anchors are left when quantifiers and PERMUTE are written out."""
    match pattern:
        case Label() | At():
            return 1
        case Concat(items) | Alternate(items):
            return sum(map(_size, items))
        case Quantify(item, low, high, _):
            return max(_size(item), 1) * (low + 1 if high is None else high)
        case Permute(items):
            # Orders share what they can: see how `engine.match.compile.program` builds them.
            others = len(items) - 1
            copies = 1 << others
            if not all(map(has_one_way, items)):
                copies = sum(math.perm(others, before) for before in range(len(items)))
            return sum(map(_size, items)) * copies
        case Exclude(item):
            return _size(item)
