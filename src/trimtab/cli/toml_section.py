"""A section of a TOML file, read setting by setting: every mistake is noted, and reading goes on.

So a user sees all mistakes of a file at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.language.intervals import amount
from trimtab.language.mistakes import did_you_mean

MISSING = "it is missing"

_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s+([A-Za-z]+)\s*")


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
        value = self._take(key, needed)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self.wrong(key, f"{_shown(value)} is not a text" if value != "" else "it is empty", needed)
        return None

    def flag(self, key: str) -> bool:
        """True or false; false if it is missing."""
        value = self._take(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.wrong(key, f"{_shown(value)} is neither true nor false", "write it without quotes")
        return False

    def whole(self, key: str, *, most: int) -> int | None:
        """A whole number from 1 to `most`."""
        value = self._take(key)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return value
        if value is not None:
            self.wrong(key, f"{_shown(value)} is not a whole number from 1 to {most:,}")
        return None

    def number(self, key: str, *, whole: bool = False, else_write: str = "") -> float | None:
        """A number that isn't negative; `else_write` is a word that may be written instead, for the hint."""
        value = self._take(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is None or (is_number and value >= 0 and not (whole and isinstance(value, float))):  # type: ignore[operator]
            return value  # type: ignore[return-value]
        kind = "a whole number" if whole else "a number"
        hint = f'write {kind}, or "{else_write}"' if else_write else ""
        self.wrong(key, f"{_shown(value)} is not {kind} from 0 on", hint)
        return None

    def length(self, key: str) -> str | None:
        """A length of time as text, such as "2 seconds"."""
        value = self._take(key)
        found = _LENGTH.fullmatch(value) if isinstance(value, str) else None
        if found is not None and amount(found[1], found[2]) is not None:
            return f"{found[1]} {found[2]}"
        if value is not None:
            self.wrong(key, f"{_shown(value)} is not a length of time", 'write for example "2 seconds"')
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._take(key)
        if isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value):
            return tuple(value)
        if value is not None:
            self.wrong(key, f"{_shown(value)} is not a list of texts", 'write ["...", "..."]')
        return ()

    def options(self, key: str) -> dict[str, str]:
        """Settings for Spark, as Spark takes them: names with dots (also written as tables), values as text."""
        section = self.section(key)
        return {} if section is None else _flat(section, section.values, "")

    def section(self, key: str, *, needed: str = "") -> Section | None:
        """A table below this one."""
        value = self._take(key, needed)
        if isinstance(value, dict):
            return Section(self.at(key), value, self.mistakes)
        if value is not None:
            self.wrong(key, f"{_shown(value)} is not a section", f"write [{self.at(key)}] and its settings below")
        return None

    def sections(self, key: str) -> list[Section]:
        """A list of tables, `[[...]]`."""
        value = self._take(key)
        if isinstance(value, list) and all(isinstance(each, dict) for each in value):
            return [Section(f"{self.at(key)}[{i}]", each, self.mistakes) for i, each in enumerate(value)]
        if value is not None:
            self.wrong(key, "it is not a list of sections", f"write [[{self.at(key)}]] with two brackets")
        return []

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

    def _take(self, key: str, needed: str = "") -> object:
        self._known.append(key)
        value = self.values.get(key)
        if value is None and needed:
            self.wrong(key, MISSING, needed)
        return value


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
