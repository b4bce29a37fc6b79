"""A compiled query's operator, ready to run, with DuckDB behind the functions that the engine doesn't know."""

from __future__ import annotations

from functools import lru_cache

from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.run.matcher import MAX_THREADS, Matcher
from trimtab.engine.operator import Operator
from trimtab.language.compiled import Query


def operator_of(query: Query, *, max_threads: int = MAX_THREADS) -> Operator:
    """The operator that runs the query's keyed step."""
    if isinstance(query.operator, MatchQuery):
        return Matcher(query.operator, scalar=scalar, max_threads=max_threads)
    assert query.operator is not None
    operator: Operator = query.operator
    return operator


def scalar(sql: str, args: tuple[object, ...]) -> object:
    """The value of a DuckDB expression with `$1`, `$2` ... for the arguments."""
    try:
        return _remembered(sql, args)
    except TypeError:  # a list among the arguments can't be remembered
        return _computed(sql, args)


@lru_cache(maxsize=65_536)
def _remembered(sql: str, args: tuple[object, ...]) -> object:
    return _computed(sql, args)


def _computed(sql: str, args: tuple[object, ...]) -> object:
    from trimtab.rowwise.duck import connection

    # All rows are fetched, though there is one: DuckDB keeps a connection busy until a result is read to its end.
    ((value,),) = connection().execute(f"SELECT {sql}", list(args)).fetchall()
    return value
