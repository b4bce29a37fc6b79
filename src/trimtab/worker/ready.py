"""A plan's queries with their operators built: unpacked once in each worker, and cached from batch to batch."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from trimtab.engine.operator import ARRIVAL, TIME_US, Operator
from trimtab.language.compiled import Query, operator_of
from trimtab.rowwise.local import Finish
from trimtab.worker.intake import SLOT, Reading
from trimtab.worker.orders import EnginePlan, Orders

READY_PLANS = 16
"""How many plans a worker caches: one for each stream of a job, and workers outlive jobs."""


@dataclass(frozen=True)
class ReadyQuery:
    """A query with its operator built, whose kernels stay loaded."""

    query: Query
    operator: Operator
    finish: Finish


@dataclass(frozen=True)
class ReadyPlan:
    """An `EnginePlan` unpacked in this process."""

    plan: EnginePlan
    queries: dict[str, ReadyQuery]


_READY: dict[str, ReadyPlan] = {}  # by plan_id; Spark reuses its workers, so this pays from the second batch on


def unpacked(orders: Orders) -> ReadyPlan:
    """The plan of these orders, ready to run."""
    if orders.plan_id not in _READY:
        plan: EnginePlan = pickle.loads(orders.plan)
        if len(_READY) >= READY_PLANS:
            _READY.clear()
        queries = {name: ready_query(query, plan.max_threads) for name, query in plan.queries.items()}
        _READY[orders.plan_id] = ReadyPlan(plan, queries)
    return _READY[orders.plan_id]


def ready_query(query: Query, max_threads: int) -> ReadyQuery:
    """The query with its operator built."""
    columns = (*query.finish.columns, (TIME_US, TIME_US))
    types = (*query.finish.types, pa.int64()) if query.finish.types else ()
    finish = replace(query.finish, columns=columns, types=types)
    by_slot = replace(query, operator=query.operator.by_slot())
    return ReadyQuery(query, operator_of(by_slot, max_threads=max_threads), finish)


class Columns(Protocol):
    """Rows by columns: a table, or some rows of one."""

    def column(self, name: str) -> pa.Array | pa.ChunkedArray:
        """The column of this name."""


def operands(reading: Reading, rows: Columns) -> pa.Table:
    """The rows, with the column names of the query's operator."""
    names = [*(known for known, _ in reading.columns), ARRIVAL, SLOT]
    sources = [*(name for _, name in reading.columns), reading.arrival, SLOT]
    return pa.table([rows.column(name) for name in sources], names=names)


def warm_engines(plan: EnginePlan) -> None:
    """Compile what engines will run: every query advances over made-up rows, in the compile process."""
    for reading in plan.intake.readings:
        ready = ready_query(plan.queries[reading.query], plan.max_threads)
        ready.operator.warm(operands(reading, plan.schema.empty_table()).schema)
