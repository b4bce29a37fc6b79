"""Random PATTERN texts: every construct, nested a few levels deep."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.support.choices import Choices, between, chance, one_of

_QUANTIFIERS = ("+", "*", "?", "{2}", "{1,2}", "{0,2}", "{1,3}", "{1,}", "{2,}", "{,2}")


@dataclass(frozen=True, slots=True)
class PatternText:
    """A pattern, the labels in it in order of appearance, and whether it has a TIMEOUT."""

    text: str
    labels: tuple[str, ...]
    timeout: bool


def a_pattern(choices: Choices, *, exclusion: bool, timeout: bool) -> PatternText:
    """A pattern over at least one and at most five labels."""
    writer = _Writer(choices, "ABCDE"[: between(choices, 1, 5)], exclusion, timeout)
    depth = one_of(choices, 1, 2, 2, 3)
    text = writer.concatenation(depth, most=4)
    if chance(choices, 20):
        text = f"{text} | {writer.concatenation(depth - 1)}"
    if chance(choices, 6):
        text = f"^ ({text})"
    if timeout and (chance(choices, 70) or "TIMEOUT" not in text):
        text = f"({text}) TIMEOUT"
    elif chance(choices, 6):
        text = f"({text}) $"
    labels = tuple(dict.fromkeys(re.findall(r"\b[A-E]\b", text)))
    if not labels:
        text, labels = f"({text}) A", ("A",)
    return PatternText(text, labels, "TIMEOUT" in text)


@dataclass(frozen=True, slots=True)
class _Writer:
    choices: Choices
    labels: str
    exclusion: bool
    timeout: bool

    def alternation(self, depth: int) -> str:
        return " | ".join(self.branch(depth) for _ in range(self.count(2, 3)))

    def branch(self, depth: int) -> str:
        """A concatenation, sometimes with an anchor: other branches can match where it can't."""
        text = self.concatenation(depth, most=2)
        if not chance(self.choices, 30 if self.timeout else 10):
            return text
        if self.timeout:
            return one_of(self.choices, f"{text} TIMEOUT", "TIMEOUT")
        return one_of(self.choices, f"{text} $", f"^ {text}", "$", "^")

    def endless(self, depth: int) -> str:
        """A loop without an upper bound over alternatives of which one may match no row."""
        empty = one_of(self.choices, "()", f"{self.label()}??", f"{self.label()}*", f"{self.label()}{{,2}}?")
        branches = [self.branch(depth - 1), one_of(self.choices, empty, f"{self.label()} {empty}", empty)]
        loop = one_of(self.choices, "*", "+", "{2,}") + ("?" if chance(self.choices, 30) else "")
        return f"(({' | '.join(branches if chance(self.choices, 60) else reversed(branches))}){loop})"

    def concatenation(self, depth: int, most: int = 3) -> str:
        return " ".join(self.factor(depth) for _ in range(self.count(1, most)))

    def count(self, least: int, most: int) -> int:
        return between(self.choices, least, most)

    def factor(self, depth: int) -> str:
        """A primary, perhaps with a quantifier."""
        primary = self.primary(depth)
        if primary in {"^", "$", "TIMEOUT"} or not chance(self.choices, 45):
            return primary
        # Reluctance is a second question mark; a space would part it from its quantifier.
        return primary + one_of(self.choices, *_QUANTIFIERS) + ("?" if chance(self.choices, 30) else "")

    def label(self) -> str:
        return self.labels[self.choices.below(len(self.labels))]

    def primary(self, depth: int) -> str:
        kinds = ["label"] * (20 if depth else 40) + ["empty", "empty", "anchor"]
        if depth > 0:
            kinds += ["group"] * 5 + ["alternation"] * 8 + ["permute"] * 3 + ["endless"] * 3
            kinds += ["exclusion"] * (3 * self.exclusion)
        match one_of(self.choices, *kinds):
            case "label":
                return self.label()
            case "empty":
                return "()"
            case "anchor":
                return one_of(self.choices, "^", "$", *["TIMEOUT"] * (4 * self.timeout))
            case "group":
                return f"({self.concatenation(depth - 1)})"
            case "alternation":
                return f"({self.alternation(depth - 1)})"
            case "endless":
                return self.endless(depth)
            case "exclusion":
                return f"{{- {self.concatenation(depth - 1, most=2)} -}}"
            case _:
                # Shallow inside, as the number of orders multiplies the size of the program.
                items = (self.factor(min(depth - 1, 1)) for _ in range(self.count(2, 3)))
                return f"PERMUTE({', '.join(items)})"
