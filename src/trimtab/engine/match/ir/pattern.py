"""A row pattern as a tree, as it was written: `program.py` compiles it, and the plain twin in the tests walks it.

Labels are numbers into `Program.labels`; nothing here knows of SQL.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from trimtab.engine.signature import signed


class Anchor(enum.Enum):
    """A zero-width condition on a place between two rows."""

    __hash__ = object.__hash__  # members are single objects; the inherited hash is a Python call

    START = "^"
    END = "$"
    TIMEOUT = "TIMEOUT"


@signed("label")
@dataclass(frozen=True, slots=True)
class Label:
    """One row that satisfies the condition of a label."""

    index: int


@signed("anchor")
@dataclass(frozen=True, slots=True)
class At:
    """Nothing, at a place where the anchor holds."""

    anchor: Anchor


@signed("sequence")
@dataclass(frozen=True, slots=True)
class Concat:
    """The items one after another; no items is the empty pattern `()`."""

    items: tuple[Pattern, ...]


@signed("alternatives")
@dataclass(frozen=True, slots=True)
class Alternate:
    """One of the items, an earlier one preferred."""

    items: tuple[Pattern, ...]


@signed("repeated", computed=("consuming",))
@dataclass(frozen=True, slots=True)
class Quantify:
    """The item at least `low` and at most `high` times (None: no end); more is preferred if `greedy`.

    Without an upper bound an iteration beyond the required ones has to consume a row.
    """

    item: Pattern
    low: int
    high: int | None
    greedy: bool

    @property
    def consuming(self) -> bool:
        """Whether some iterations are refused because they consume no row.

        Builds that took such iterations compiled these loops otherwise: their state would be misread, so it is a part
        of the signature.
        """
        return self.high is None and may_be_empty(self.item)


@signed("permutation")
@dataclass(frozen=True, slots=True)
class Permute:
    """The items in any order; orders are preferred lexicographically as the items are written."""

    items: tuple[Pattern, ...]


@signed("excluded")
@dataclass(frozen=True, slots=True)
class Exclude:
    """The item, whose rows are matched and counted but left out of ALL ROWS PER MATCH."""

    item: Pattern


Pattern = Label | At | Concat | Alternate | Quantify | Permute | Exclude
EMPTY = Concat(())


def may_be_empty(pattern: Pattern) -> bool:
    """Whether a pattern can match without a row."""
    match pattern:
        case Label():
            return False
        case At():
            return True
        case Concat(items) | Permute(items):
            return all(map(may_be_empty, items))
        case Alternate(items):
            return any(map(may_be_empty, items))
        case Quantify(item, low, _, _):
            return low == 0 or may_be_empty(item)
        case Exclude(item):
            return may_be_empty(item)
