"""A compiled query's operator, ready to run, with DuckDB for the functions that the engine doesn't have."""

from __future__ import annotations

from functools import lru_cache

from trimtab.engine.operator import MAX_THREADS, Operator, Settings
from trimtab.language.compiled import Query


def operator_of(query: Query, *, max_threads: int = MAX_THREADS) -> Operator:
    """The operator that runs the query's step over rows."""
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
