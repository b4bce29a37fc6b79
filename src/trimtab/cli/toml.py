"""A TOML file, read setting by setting: every mistake is noted, and reading goes on.

So a user sees all mistakes of a file at once, each with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from trimtab.language.intervals import amount
from trimtab.language.mistakes import did_you_mean

MISSING = "it is missing"
Value = TypeVar("Value")
Check = Callable[[Any], bool]

_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s+([A-Za-z]+)\s*")
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY})\s*\]\]?\s*(?:#.*)?$")
_SETTING = re.compile(rf"\s*({_KEY})\s*=\s*(.*)$")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong at a dotted place, and what to do."""

    place: str
    message: str
    hint: str = ""


@dataclass(slots=True)
class Section:
    """One table of the file, and the list that its mistakes go to.

    Each method reads one setting and returns None (or the default) where it is missing or wrong. `finish` notes the
    settings that no method has read.
    """

    place: str
    values: Mapping[str, object]
    mistakes: list[Mistake]
    _known: list[str] = field(default_factory=list)

    def wrong(self, key: str, message: str, hint: str = "") -> None:
        """Note a mistake in a setting; an empty key means the section itself."""
        self.mistakes.append(Mistake(self.at(key), message, hint))

    def at(self, key: str) -> str:
        """The dotted place of a setting."""
        return ".".join(part for part in (self.place, key) if part)

    def text(self, key: str, *, needed: str = "") -> str | None:
        """A string that isn't empty; `needed` says what to write if it is missing, and makes that a mistake."""
        message = "it is empty" if self.values.get(key) == "" else "{} is not a text"
        return self._read(key, str, message, needed, needed, is_right=_is_text)

    def word(self, key: str, known: Sequence[str]) -> str | None:
        """One of the known words."""
        found = self.text(key)
        if found is None or found in known:
            return found
        self.wrong(key, f'"{found}" is not one', did_you_mean(found, known, otherwise=f"write {', '.join(known)}"))
        return None

    def flag(self, key: str) -> bool:
        """True or false; false if it is missing."""
        return self._read(key, bool, "{} is neither true nor false", "write it without quotes") or False

    def whole(self, key: str, *, most: int) -> int | None:
        """A whole number from 1 to `most`."""
        message = f"{{}} is not a whole number from 1 to {most:,}"
        return self._read(key, int, message, is_right=lambda value: 1 <= value <= most)

    def number(self, key: str, *, whole: bool = False, else_write: str = "") -> float | None:
        """A number that isn't negative; `else_write` is a word that may be written instead, for the hint."""
        name = "a whole number" if whole else "a number"
        hint = f'write {name}, or "{else_write}"' if else_write else ""
        kind = int if whole or isinstance(self.values.get(key), int) else float
        return self._read(key, kind, f"{{}} is not {name} from 0 on", hint, is_right=lambda value: value >= 0)

    def pair(self, key: str) -> tuple[float, float] | None:
        """Two numbers, which may be negative."""

        def is_right(values: list[object]) -> bool:
            return len(values) == 2 and all(type(each) in (int, float) for each in values)

        found = self._read(key, list, "{} is not a pair of numbers", "write [1.0, 2.0]", is_right=is_right)
        return None if found is None else (float(found[0]), float(found[1]))

    def length(self, key: str) -> str | None:
        """A length of time as text, such as "2 seconds"."""
        message, hint = "{} is not a length of time", 'write for example "2 seconds"'
        found = self._read(key, str, message, hint, is_right=_is_length)
        return None if found is None else " ".join(found.split())

    def moment(self, key: str, words: Sequence[str] = ()) -> datetime | str | None:
        """A point in time, as TOML writes it, or one of some words."""
        if words and isinstance(self.values.get(key), str):
            return self.word(key, words)
        either = "".join(f'"{word}", ' for word in words)
        hint = f"write {either}{'or ' if either else ''}a time without quotes, such as 2026-01-01T00:00:00Z"
        return self._read(key, datetime, "{} is not a point in time", hint)

    def refuse(self, key: str, message: str, hint: str) -> None:
        """Note a setting that makes no sense here, if it is written."""
        if key in self.values:
            self._known.append(key)
            self.wrong(key, message, hint)

    def known(self, key: str) -> None:
        """Name a setting that there is, though it isn't written here, for the hints on misspelt ones."""
        self._known.append(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        message, hint = "{} is not a list of texts", 'write ["...", "..."]'
        return tuple(self._read(key, list, message, hint, is_right=lambda values: all(map(_is_text, values))) or ())

    def options(self, key: str) -> dict[str, str]:
        """Settings for Spark, as Spark takes them: names with dots (also written as tables), values as text."""
        section = self.section(key)
        return {} if section is None else _flat(section, section.values, "")

    def section(self, key: str, *, needed: str = "") -> Section | None:
        """A table below this one."""
        hint = f"write [{self.at(key)}] and its settings below"
        value = self._read(key, dict, "{} is not a section", hint, needed)
        return None if value is None else Section(self.at(key), value, self.mistakes)

    def sections(self, key: str) -> list[Section]:
        """A list of tables, `[[...]]`."""
        message, hint = "it is not a list of sections", f"write [[{self.at(key)}]] with two brackets"
        tables = self._read(
            key, list, message, hint, is_right=lambda values: all(isinstance(each, dict) for each in values)
        )
        return [Section(f"{self.at(key)}[{i}]", each, self.mistakes) for i, each in enumerate(tables or ())]

    def named(self, key: str, *, needed: str) -> list[tuple[str, Section]]:
        """The tables of a table, each with its name."""
        outer = self.section(key, needed=needed)
        if outer is None:
            return []
        if not outer.values:
            outer.wrong("", "it is empty", needed)
        found = ((name, outer.section(name)) for name in outer.values)
        return [(name, section) for name, section in found if section is not None]

    def finish(self) -> None:
        """Note the settings that no method has read."""
        for key in self.values:
            if key not in self._known:
                hint = did_you_mean(key, self._known, otherwise=f"there are {', '.join(self._known)}")
                meant = [self.at(known) for known in self._known if hint == f"did you mean {known}?"]
                # One slip is one mistake: a misspelt setting isn't reported as missing, too.
                self.mistakes[:] = [m for m in self.mistakes if not (m.message == MISSING and m.place in meant)]
                self.wrong(key, "there is no such setting", hint)

    def _read(
        self, key: str, kind: type[Value], message: str, hint: str = "", needed: str = "", is_right: Check | None = None
    ) -> Value | None:
        """A setting of that kind; if it is something else, the message is noted, with the value in place of {}."""
        self._known.append(key)
        value = self.values.get(key)
        if (
            isinstance(value, kind)
            and isinstance(value, bool) == (kind is bool)
            and (is_right is None or is_right(value))
        ):
            return value
        if value is not None:
            self.wrong(key, message.replace("{}", _shown(value)), hint)
        elif needed:
            self.wrong(key, MISSING, needed)
        return None


def _is_length(text: str) -> bool:
    found = _LENGTH.fullmatch(text)
    return found is not None and amount(found[1], found[2]) is not None


def _flat(section: Section, values: Mapping[str, object], prefix: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for key, value in values.items():
        name = prefix + key
        if isinstance(value, dict):
            options |= _flat(section, value, name + ".")
        elif isinstance(value, bool):
            options[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            options[name] = str(value)
        else:
            section.wrong(name, f"{_shown(value)} is neither text, number, true nor false")
    return options


def _shown(value: object) -> str:
    """A value as it would be written in the file, cut short."""
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    if isinstance(value, dict):
        text = "a section"
    return text if len(text) <= 40 else text[:37] + "..."


# Lines -------------------------------------------------------------------------------------------
# The parser of the standard library doesn't say them. For messages only: the text is known to be valid, and a setting
# that isn't found (in tables written inline) gets the line of the nearest section or setting around it.


def setting_lines(text: str) -> dict[str, int]:
    r"""The line of every section and setting, by its dotted place; elements of `[[lists]]` have their number.

    >>> setting_lines('[job]\nengines = 4\n[[queries.q.sinks]]\nformat = "console"\n')["queries.q.sinks[0].format"]
    4
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    section, closing = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        if closing:  # inside a string of several lines
            closing = "" if closing in line else closing
        elif header := _HEADER.match(line):
            section = _section(_dotted(header[2]), header[1] == "[[", counts)
            for end in [*(dot.start() for dot in re.finditer(r"\.", section)), len(section)]:
                lines.setdefault(section[:end], number)  # [a.b] makes a as well
        elif setting := _SETTING.match(line):
            place = _dotted(setting[1])
            lines.setdefault(f"{section}.{place}" if section else place, number)
            closing = _left_open(setting[2])
    return lines


def line_of(place: str, lines: Mapping[str, int]) -> int | None:
    """The line of a place, or of what is around it; None if nothing is known.

    >>> line_of("job.trigger", {"job": 3})
    3
    """
    while place:
        if place in lines:
            return lines[place]
        place = place.rpartition("[" if place.endswith("]") else ".")[0]
    return None


def _dotted(key: str) -> str:
    return ".".join(part.strip("\"'") for part in re.findall(_PART, key))


def _section(name: str, is_element: bool, counts: dict[str, int]) -> str:
    """The place of a section: below the newest element of each list that its name goes through."""
    place = ""
    parts = name.split(".")
    for depth, part in enumerate(parts):
        place = f"{place}.{part}" if place else part
        if is_element and depth == len(parts) - 1:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = f"{place}[{counts[place]}]"
    return place


def _left_open(value: str) -> str:
    """The quotes that a value opens and doesn't close on its line."""
    for quotes in ('"""', "'''"):
        if value.startswith(quotes) and quotes not in value[3:]:
            return quotes
    return ""
