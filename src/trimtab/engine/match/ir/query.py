"""What the engine has to do: one MATCH_RECOGNIZE, checked, with names resolved to numbers.

`language` builds it; `run` and its plain twin in the tests run it. It is plain data and pickles.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.match.ir.expression import Aggregate, Expr, MatchNumber, RowValue, Side, walk
from trimtab.engine.match.ir.pattern import Pattern
from trimtab.engine.match.ir.state_schema import NODE_COLUMNS, NODES, PENDING, ROWS, THREADS
from trimtab.engine.operator import DEFAULTS, Description, Obstacle, Operator, Settings, StateTable
from trimtab.engine.signature import signed
from trimtab.keyed_state import DEADLINE, KEY, KEYS


class Rows(enum.Enum):
    """ROWS PER MATCH."""

    ONE = "ONE ROW PER MATCH"
    ALL_SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


@signed("skip-past-last")
@dataclass(frozen=True, slots=True)
class SkipPastLast:
    """AFTER MATCH SKIP PAST LAST ROW: the next match starts after this one."""


@signed("skip-to-next")
@dataclass(frozen=True, slots=True)
class SkipToNext:
    """AFTER MATCH SKIP TO NEXT ROW: the next match may start on the second row of this one."""


@signed("skip-to", without=("name",))
@dataclass(frozen=True, slots=True)
class SkipTo:
    """AFTER MATCH SKIP TO FIRST/LAST v: the next match starts on that row, which must not be the first."""

    side: Side
    labels: frozenset[int]
    name: str  # as written, for the error


Skip = SkipPastLast | SkipToNext | SkipTo


Slot = RowValue | Aggregate | MatchNumber
"""A value that the engine computes for each output row; measures are expressions over slots, computed afterwards."""


@signed("match/1")
@dataclass(frozen=True, slots=True)
class MatchQuery(Description):
    """One MATCH_RECOGNIZE over a table whose row-local columns are already computed.

    The output is a table with the `keep` columns of the input (of the matched row for ALL ROWS; the partition
    columns for ONE ROW), then `slot0`, `slot1` ..., then ARRIVAL and TIME_US. `conditions[i]` None means label i always
    holds. `time_column` is the first ORDER BY column where that is a timestamp or date (WITHIN and watermarks count on
    it).
    """

    labels: tuple[str, ...]
    pattern: Pattern
    conditions: tuple[Expr | None, ...]
    slots: tuple[Slot, ...]
    rows: Rows
    skip: Skip
    partition: tuple[str, ...]
    order: tuple[OrderKey, ...]
    keep: tuple[str, ...]
    time_column: str | None = None
    within_us: int | None = None

    @property
    def state_tables(self) -> tuple[StateTable, ...]:
        """For each key what is known of it, the rows that it still needs, its partial matches and their paths."""
        return (
            StateTable(KEYS, (DEADLINE,)),
            StateTable(ROWS, (KEY, PENDING)),
            StateTable(THREADS, (KEY,)),
            StateTable(NODES, (KEY, *NODE_COLUMNS)),
        )

    def expressions(self) -> list[Expr]:
        """The conditions and slots, and every expression inside them."""
        outer = (*self.conditions, *self.slots)
        return [inner for expr in outer if expr is not None for inner in walk(expr)]

    def columns_read(self) -> tuple[str, ...]:
        """The columns that conditions and slots read."""
        sources = (source for expr in self.expressions() if isinstance(expr, RowValue) for source in expr.sources)
        return tuple(dict.fromkeys(source for source in sources if isinstance(source, str)))

    def split_obstacle(self) -> Obstacle:
        """The order of a key's rows is what a pattern is about."""
        hint = "leave out split; if the pattern allows it, add a column to PARTITION BY, which makes smaller keys"
        return Obstacle("a pattern needs all rows of its key in one place, in order", hint)

    def open(self, settings: Settings = DEFAULTS) -> Operator:
        """The columnar matcher."""
        from trimtab.engine.match.run.matcher import Matcher  # which compiles what is described here

        return Matcher(self, scalar=settings.scalar, max_threads=settings.max_threads)
