r"""Regular expressions that mean the same in Java, which Spark uses, and in RE2, which DuckDB uses.

Only what is known to be the same is translated: letters and signs, groups, alternatives, repetitions, simple classes,
^ and $. Where both differ, what RE2 gets is spelled out: "." leaves out all of Java's ends of lines, "\s" has the
vertical tab, and (?i) at the beginning makes pairs of the letters from a to z, and of no others. Everything else
(look-ahead, \b, \p{...}, other flags, back references, possessive repetitions) has no translation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

_ENDS_OF_LINES = r"\n\r\x{85}\x{2028}\x{2029}"
_ESCAPES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r"\t\n\x0b\f\r ", "t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_CLASSES = "dws"
_PLAIN = re.compile(r"[^\\\[\](){}.*+?^$|&~#\x00-\x1f]")
_SIGNS = r"\[](){}.*+?^$|/-&~#@!%,;:='\"<>_ "
_REPEATED = re.compile(r"(?:[*+?]|\{(\d{1,3})(?:(,)(\d{0,3}))?\})(\??)(?![+*?{])")
_MOST_REPEATED = 200
_FOLDING = "(?i)"


@dataclass(frozen=True, slots=True)
class Translated:
    """A regular expression for RE2.

    groups             how many groups it has
    has_end            whether it asks for the end of the text, where Java may leave out the end of the last line
    may_match_nothing  whether an empty text matches
    """

    text: str
    groups: int
    has_end: bool
    may_match_nothing: bool


class _UnknownError(Exception):
    """Something that isn't known to mean the same."""


@lru_cache(maxsize=1024)
def translated(pattern: str) -> Translated | None:
    r"""The expression for RE2; None: it isn't known to mean the same there.

    >>> translated(r"^a\d+(b|c)").text
    '\\Aa[0-9]+(b|c)'
    >>> translated(r"a(?=b)") is None
    True
    """
    try:
        return _Translation(pattern).whole()
    except _UnknownError:
        return None


class _Translation:
    """Reads an expression from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at, self._groups = pattern, 0, 0
        self._has_end = self._takes_ends_of_lines = False
        self._folds = pattern.startswith(_FOLDING)
        if self._folds:
            self._at = self._begin = len(_FOLDING)
        else:
            self._begin = 0

    def whole(self) -> Translated:
        text, may_be_empty = self._alternatives()
        if self._at < len(self._pattern):
            raise _UnknownError
        # $ of Java also holds before the end of the last line. It is written as such an end that may follow, which is
        # the same unless what comes before it can take a part of that end.
        if self._has_end and self._takes_ends_of_lines:
            raise _UnknownError
        return Translated(text, self._groups, self._has_end, may_be_empty)

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _alternatives(self) -> tuple[str, bool]:
        found, may_be_empty = [], False
        while True:
            text, is_empty = self._sequence()
            found.append(text)
            may_be_empty |= is_empty
            if self._next() != "|":
                return "|".join(found), may_be_empty
            self._at += 1

    def _sequence(self) -> tuple[str, bool]:
        found, may_be_empty = "", True
        while self._next() not in ("", "|", ")"):
            text, is_empty, is_repeatable = self._part()
            if (repeated := _REPEATED.match(self._pattern, self._at)) is not None:
                if not is_repeatable or is_empty or not _is_few(repeated):
                    raise _UnknownError  # also what may be empty: the two repeat that differently
                self._at = repeated.end()
                text += repeated[0]
                is_empty = repeated[0][0] in "*?" or repeated[1] == "0"
            elif self._next() in ("*", "+", "?", "{"):
                raise _UnknownError
            found, may_be_empty = found + text, may_be_empty and is_empty
        return found, may_be_empty

    def _part(self) -> tuple[str, bool, bool]:
        """The next part, whether it may match nothing, and whether it can be repeated."""
        character = self._next()
        self._at += 1
        match character:
            case "(":
                return *self._group(), True
            case "[":
                return self._class(), False, True
            case ".":
                return f"[^{_ENDS_OF_LINES}]", False, True
            case "^" if self._at == self._begin + 1:
                return r"\A", True, False
            case "$" if self._at == len(self._pattern):
                self._has_end = True
                return rf"(?:\r\n|[{_ENDS_OF_LINES}])?\z", True, False
            case "\\":
                return self._escape(), False, True
            case _ if _PLAIN.fullmatch(character) and character not in "^$":
                return self._letter(character), False, True
        raise _UnknownError

    def _letter(self, character: str) -> str:
        is_folded = self._folds and character.isascii() and character.isalpha()
        return f"[{character.lower()}{character.upper()}]" if is_folded else re.escape(character)

    def _group(self) -> tuple[str, bool]:
        begin = "("
        if self._pattern.startswith("?:", self._at):
            begin = "(?:"
            self._at += 2
        elif self._next() in ("?", "*"):
            raise _UnknownError
        else:
            self._groups += 1
        inside, may_be_empty = self._alternatives()
        if self._next() != ")":
            raise _UnknownError
        self._at += 1
        return f"{begin}{inside})", may_be_empty

    def _escape(self) -> str:
        character = self._next()
        self._at += 1
        if character.lower() in _CLASSES and character:
            is_other = character.isupper()
            self._takes_ends_of_lines |= character in "sDW"
            return f"[{'^' if is_other else ''}{_ESCAPES[character.lower()]}]"
        if character in _ESCAPES:
            self._takes_ends_of_lines |= character in "nr"
            return _ESCAPES[character]
        if character and character in _SIGNS:
            return re.escape(character)
        raise _UnknownError

    def _class(self) -> str:
        is_other = self._next() == "^"
        self._at += is_other
        self._takes_ends_of_lines |= is_other
        found = ""
        while self._next() != "]" or not found:
            low, is_single = self._member()
            found += low
            high = low
            if self._next() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high, is_single_too = self._member()
                if not (is_single and is_single_too):
                    raise _UnknownError
                found += f"-{high}"
            found += self._folded(low, high)
        self._at += 1
        return f"[{'^' if is_other else ''}{found}]"

    def _folded(self, low: str, high: str) -> str:
        """The letters of a range in the other case, where that matters."""
        if not self._folds or low in map(_ESCAPES.get, _CLASSES):
            return ""
        if _is_letters(low, high, str.islower) or _is_letters(low, high, str.isupper):
            return f"{low.swapcase()}-{high.swapcase()}"
        if low == high and not (low.isascii() and low.isalpha()):
            return ""
        if "0" <= low <= high <= "9":
            return ""
        raise _UnknownError  # a range in which there are letters and others

    def _member(self) -> tuple[str, bool]:
        character = self._next()
        self._at += 1
        if character == "\\":
            escaped = self._next()
            self._at += 1
            if escaped and escaped in _ESCAPES:
                self._takes_ends_of_lines |= escaped in "snr"
                return _ESCAPES[escaped], escaped not in _CLASSES
            if escaped and escaped in _SIGNS:
                return f"\\{escaped}" if not escaped.isspace() and escaped != "_" else escaped, True
            raise _UnknownError
        if not character or character in "[]&^~" or ord(character) < ord(" "):
            raise _UnknownError
        return ("\\-" if character == "-" else character), character != "-"


def _is_letters(low: str, high: str, case: Callable[[str], bool]) -> bool:
    """Whether a range has only letters from a to z, of one case."""
    return all(len(each) == 1 and each.isascii() and each.isalpha() and case(each) for each in (low, high))


def _is_few(repeated: re.Match[str]) -> bool:
    counts = [int(count) for count in (repeated[1], repeated[3]) if count]
    return max(counts, default=0) <= _MOST_REPEATED and (len(counts) < 2 or counts[0] <= counts[1])
