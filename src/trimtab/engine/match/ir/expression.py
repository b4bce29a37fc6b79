"""The expressions that the engine understands: values of rows of the match under way, and what is made of them.

Row-local work is already done when the engine runs: it arrives as columns ("tier 1"). What is left crosses rows.
Every expression is evaluated "now": while a row is tried for a label in DEFINE, that row counts as the last row of
the match, mapped to that label; for a RUNNING measure now is the row it is shown on; for FINAL it is the last row.

Three-valued logic throughout: None is null, comparisons with null are null, AND/OR/NOT are Kleene's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pyarrow as pa

from trimtab.engine.signature import signed


class Side(enum.Enum):
    """From which end of the match a place is counted."""

    __hash__ = object.__hash__  # members are single objects; the inherited hash is a Python call

    FIRST = "FIRST"
    LAST = "LAST"


@signed("place")
@dataclass(frozen=True, slots=True)
class Place:
    """A row: the `offset`-th from one side among the rows mapped to `labels`, then `shift` rows on in the partition.

    `labels` None means any label. `shift` is negative for PREV and positive for NEXT; it may leave the match but not
    the partition. There may be no such row. `final` looks at the whole match, otherwise at the rows up to now.
    """

    labels: frozenset[int] | None = None
    side: Side = Side.LAST
    offset: int = 0
    shift: int = 0
    final: bool = False


HERE = Place()
"""The current row: the one being tried for a label, shown, or aggregated."""


@signed("constant")
@dataclass(frozen=True, slots=True)
class Const:
    """A literal; `value` is a plain Python value (None for null) of the Arrow type."""

    value: object
    type: pa.DataType


Source = str | Const
"""Where a row's value comes from: a column of the input (by name), or the same value for all rows."""


@signed("row-value")
@dataclass(frozen=True, slots=True)
class RowValue:
    """A row-local value, read at a place.

    `sources` has one entry, or, where the value depends on the label that the row is mapped to (CLASSIFIER), one per
    label and a last one for a row that is outside the match: in a condition the match so far, in a measure the whole
    one, so there NEXT(CLASSIFIER()) is the next row's label. `default` is the value where there is no row.
    """

    place: Place
    sources: tuple[Source, ...]
    default: Const
    type: pa.DataType


@signed("match-number")
@dataclass(frozen=True, slots=True)
class MatchNumber:
    """The number of the match in its partition, from 1; matches under way count as the next one."""

    type: pa.DataType = pa.int64()


@signed("aggregate")
@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over the rows of the match mapped to `labels` (None: all rows), up to now or FINAL.

    `function` is in `aggregates.FOLDS`. `args` are evaluated at each of those rows: every `RowValue` in them has the
    place `HERE`. `count` without args counts rows. Nulls are ignored, except by array_agg, first_value and last_value.
    """

    function: str
    labels: frozenset[int] | None
    args: tuple[Expr, ...]
    type: pa.DataType
    final: bool = False


@signed("call")
@dataclass(frozen=True, slots=True)
class Call:
    """A function from `scalars.SCALARS` of other expressions."""

    function: str
    args: tuple[Expr, ...]
    type: pa.DataType


@signed("sql")
@dataclass(frozen=True, slots=True)
class Opaque:
    """Any other scalar function: SQL with `$1`, `$2` ... for the args, computed by an evaluator given at run time.

    A program with one of these in a condition can't be compiled to machine code and runs interpreted.
    """

    sql: str
    args: tuple[Expr, ...]
    type: pa.DataType


Expr = Const | RowValue | MatchNumber | Aggregate | Call | Opaque


def walk(expr: Expr) -> list[Expr]:
    """The expression and everything inside it."""
    args = expr.args if isinstance(expr, Call | Opaque | Aggregate) else ()
    return [expr, *(inner for arg in args for inner in walk(arg))]
