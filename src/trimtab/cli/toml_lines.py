"""On which line of a TOML text a setting is: the parser of the standard library doesn't say.

For messages only. The text is known to be valid; a setting that this can't find (in tables written inline) gets the
line of the nearest section or setting around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY})\s*\]\]?\s*(?:#.*)?$")
_SETTING = re.compile(rf"\s*({_KEY})\s*=\s*(.*)$")


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
        place = re.sub(r"(\[\d+\]|\.[^.]*|^[^.\[]*)$", "", place)
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
