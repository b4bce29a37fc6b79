"""One colour per scheme in all figures; colour-blind people can distinguish them (after Okabe and Ito 2008)."""

from __future__ import annotations

SCHEME_COLOURS: dict[str, str] = {
    "KG": "#d55e00",
    "PKG": "#e69f00",
    "PoTC": "#56b4e9",
    "SG": "#4d4d4d",
    "CH": "#cc79a7",
    "PoRC": "#009e73",
    "CG": "#0072b2",
    "D-Choices": "#8c6d1f",
    "W-Choices": "#7a4fa3",
}
"""Routing schemes by the names that Nasir (2017) gives them, table II, and ours."""

SCHEME_MARKERS: dict[str, str] = {
    "KG": "v",
    "PKG": "^",
    "PoTC": "s",
    "SG": "D",
    "CH": "P",
    "PoRC": "o",
    "CG": "o",
    "D-Choices": "*",
    "W-Choices": "X",
}
"""Markers, so that lines can be distinguished without colour, too."""

RAMP: tuple[str, ...] = ("#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#084594")
"""Light to dark: values of one scheme's option, in order."""
