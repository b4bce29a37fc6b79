"""Where random generators of cases take their decisions from: a seed, a script, or a property-testing library.

Every decision is a whole number of which 0 is the plainest. So any list of numbers is a script that
writes something valid, and a failing case is simplified by simplifying its list.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of decisions."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        ...


class SeededChoices:
    """Uniformly random decisions, and the list of them so far."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.script: list[int] = []

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        self.script.append(self._random.randrange(limit))
        return self.script[-1]


class ScriptedChoices:
    """Decisions read from a list; the plainest ones after its end."""

    def __init__(self, script: Sequence[int]) -> None:
        self._rest = iter(script)

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return min(next(self._rest, 0), limit - 1)


def between(choices: Choices, least: int, most: int) -> int:
    """A number from `least` to `most`, both included."""
    return least + choices.below(most - least + 1)


def one_of(choices: Choices, *options: T) -> T:
    """One of the options, the plainest first; name one twice to get it twice as often."""
    return options[choices.below(len(options))]


def some_of(choices: Choices, options: Sequence[T]) -> tuple[T, ...]:
    """Some of the options, at least one, in their order."""
    chosen = 1 + choices.below(2 ** len(options) - 1)
    return tuple(option for i, option in enumerate(options) if chosen >> i & 1)


def chance(choices: Choices, percent: int) -> bool:
    """True with a probability of `percent`."""
    return choices.below(100) >= 100 - percent


def repeat(choices: Choices, percent: int, most: int) -> Iterator[int]:
    """Rounds of a loop: another one follows with a probability of `percent`, at most `most` in all.

    Unlike with a number of rounds that is drawn first, a round can be cut out of a script.
    """
    for i in range(most):
        if not chance(choices, percent):
            return
        yield i


def simplify(script: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """A script that still fails, made shorter and its numbers smaller until no step helps.

    >>> simplify([5, 0, 9, 3, 7], lambda script: 9 in script)
    [9]
    """
    best = list(script)
    improved = True
    while improved:
        improved = False
        # Halves, quarters ... and then every small size, such as that of a row of a table.
        halves = [len(best) >> i for i in range(len(best).bit_length())]
        for size in [*(half for half in halves if half > 12), *range(12, 0, -1)]:
            at = 0
            while at < len(best):
                # Dropping decisions moves all later ones forward; zeroing them keeps those in place.
                tries = [best[:at] + best[at + size :]]
                if any(best[at : at + size]):
                    tries.append(best[:at] + [0] * len(best[at : at + size]) + best[at + size :])
                if size == 1 and best[at] > 1:
                    tries += [[*best[:at], n, *best[at + 1 :]] for n in (1, best[at] - 1)]
                better = next((option for option in tries if fails(option)), None)
                if better is None:
                    at += size
                else:
                    best, improved = better, True
    return best
