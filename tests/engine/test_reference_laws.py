"""The reference agrees with an even plainer definition: all ways to match, in order of preference."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tests.support.patterns import letters_query, letters_table, read
from tests.support.reference import match_rows
from trimtab.engine.match.ir.expression import HERE, Aggregate, Call, Const, Expr, RowValue
from trimtab.engine.match.ir.pattern import Alternate, Anchor, At, Concat, Exclude, Label, Pattern, Permute, Quantify
from trimtab.engine.match.ir.query import SkipToNext

INT, STRING, BOOL = pa.int64(), pa.string(), pa.bool_()
LABELS = "ABCDE"


class TooManyWaysError(Exception):
    """This definition takes exponential time; a case that would take too long is left out."""


@dataclass
class Definition:
    """A label fits some letters, as long as there are not too many rows of a certain label."""

    text: str
    fits: list[str]
    counts: list[int]
    limits: list[int]
    patience: int = 5000

    def ways(self, pattern: Pattern, at: int, labels: str) -> Iterator[str]:  # noqa: C901 - a case each
        """All ways to go on from the labels of the rows since `at`, the preferred first."""
        self.patience -= 1
        if self.patience < 0:
            raise TooManyWaysError
        row = at + len(labels)
        match pattern:
            case Label(i):
                after = labels + LABELS[i]
                if (
                    row < len(self.text)
                    and self.text[row] in self.fits[i]
                    and after.count(LABELS[self.counts[i]]) <= self.limits[i]
                ):
                    yield after
            case At(anchor):
                if row == (0 if anchor is Anchor.START else len(self.text)):
                    yield labels
            case Concat(()):
                yield labels
            case Concat((first, *rest)):
                for after in self.ways(first, at, labels):
                    yield from self.ways(Concat(tuple(rest)), at, after)
            case Alternate(items):
                for item in items:
                    yield from self.ways(item, at, labels)
            case Permute(items):
                for order in itertools.permutations(items):
                    yield from self.ways(Concat(order), at, labels)
            case Exclude(item):
                yield from self.ways(item, at, labels)
            case Quantify():
                yield from self.iterations(pattern, 0, at, labels)

    def iterations(self, loop: Quantify, count: int, at: int, labels: str) -> Iterator[str]:
        """All ways to go on with a loop after a number of iterations."""
        if count >= loop.low and not loop.greedy:
            yield labels
        if loop.high is None or count < loop.high:
            for after in self.ways(loop.item, at, labels):
                is_empty, is_endless = after == labels, loop.high is None
                if is_empty and is_endless and count >= loop.low:
                    continue  # an optional iteration of an endless loop has to take a row
                if is_empty and count + is_endless >= loop.low:
                    yield after  # the loop ends
                else:
                    yield from self.iterations(loop, count + 1, at, after)
        if count >= loop.low and loop.greedy:
            yield labels


def random_pattern(rng: random.Random, depth: int) -> Pattern:
    if depth == 0 or rng.random() < 0.3:
        anchors: list[Pattern] = [At(Anchor.START), At(Anchor.END), Concat(())]
        return Label(rng.randrange(5)) if rng.random() < 0.9 else rng.choice(anchors)
    items = tuple(random_pattern(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    low = rng.randint(0, 2)
    high = rng.choice([None, max(1, low), low + 2])
    choices: list[Pattern] = [
        Concat(items),
        Alternate(items),
        Permute(items),
        Exclude(items[0]),
        Quantify(items[0], low, high, rng.random() < 0.6),
        Quantify(Alternate(items), low, high, rng.random() < 0.6),
    ]
    return rng.choice(choices)


def conditions(definition: Definition) -> tuple[Expr | None, ...]:
    made: list[Expr] = []
    for fit, count, limit in zip(definition.fits, definition.counts, definition.limits, strict=True):
        letters = tuple(Const(letter, STRING) for letter in fit)
        fits = Call("in", (read("letter"), *letters), BOOL)
        rows = Aggregate("count", frozenset({count}), (), INT)
        made.append(Call("and", (fits, Call("<=", (rows, Const(limit, INT)), BOOL)), BOOL))
    return tuple(made)


@pytest.mark.parametrize("block", range(10))
def test_of_all_ways_to_match_the_first_is_found(block: int) -> None:
    names = tuple(Const(label, STRING) for label in LABELS)
    label = RowValue(HERE, (*names, Const(None, STRING)), Const(None, STRING), STRING)
    slot = Aggregate("array_agg", None, (label,), pa.list_(STRING))
    compared = 0
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(seed)
        pattern = random_pattern(rng, 3)
        definition = Definition(
            "".join(rng.choices("ABC", k=rng.randint(0, 9))),
            ["".join(rng.sample("ABC", rng.randint(1, 3))) for _ in LABELS],
            [rng.randrange(5) for _ in LABELS],
            [rng.choice([1, 2, 99, 99]) for _ in LABELS],
        )
        try:
            starts = range(len(definition.text))
            first = (next(definition.ways(pattern, at, ""), None) for at in starts)
            expected = [labels for labels in first if labels is not None]
        except TooManyWaysError:
            continue
        query = letters_query(pattern, conditions=conditions(definition), slots=(slot,), skip=SkipToNext())
        output = match_rows(query, letters_table(definition.text))
        assert ["".join(x or ()) for x in output["slot0"].to_pylist()] == expected, seed
        compared += 1
    assert compared > 40
