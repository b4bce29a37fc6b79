"""A compiled query: work on each row, the operator that crosses rows, work on its output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trimtab.engine.operator import MAX_THREADS, Description, Operator, Settings
from trimtab.engine.signature import signature_of
from trimtab.rowwise.local import Finish, IntakeStep


@dataclass(frozen=True, slots=True)
class Query:
    """A checked query, ready to run: plain data that pickles.

    `source` is the table that it reads. The intake runs first, then the operator over the intake's
    output, then the finish over the operator's output.
    """

    sql: str
    source: str
    intake: IntakeStep
    operator: Description
    finish: Finish

    @property
    def signature(self) -> dict[str, Any]:
        """All that the state of the query depends on, as plain values; the finish, which has no state, is left out."""
        parts = {"intake": self.intake, "operator": self.operator}
        return {"source": self.source} | {name: signature_of(part) for name, part in parts.items()}


def operator_of(query: Query, *, max_threads: int = MAX_THREADS) -> Operator:
    """The operator that runs the query's step over rows, with DuckDB for the functions that the engine doesn't have."""
    return query.operator.open(Settings(max_threads, scalar))


def scalar(sql: str, args: tuple[object, ...]) -> object:
    """The value of a DuckDB expression with `$1`, `$2` ... for the arguments."""
    try:
        return _cached(sql, args)
    except TypeError:  # a list among the arguments can't be a key of the cache
        return _computed(sql, args)


def _computed(sql: str, args: tuple[object, ...]) -> object:
    from trimtab.rowwise.duck import connection

    # All rows are fetched, though there is one: DuckDB keeps a connection busy until a result is read to its end.
    ((value,),) = connection().execute(f"SELECT {sql}", list(args)).fetchall()
    return value


_cached = lru_cache(maxsize=65_536)(_computed)
