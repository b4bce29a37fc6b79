"""`evaluate`: runs a query over Arrow tables in this process, with the same operators as on a cluster.

For notebooks, tests and anything that fits one machine. The input may be cut into batches; the answer stays the same.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.keys import key_codes
from trimtab.engine.columns.order import in_order
from trimtab.engine.columns.times import is_time, times_us
from trimtab.engine.columns.watermark import ONLY, StreamTime, TimeRule, is_late
from trimtab.engine.operator import ARRIVAL, MAX_THREADS, Moment, Operator, State
from trimtab.errors import InputError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query, operator_of
from trimtab.language.intervals import delay_us
from trimtab.language.readable import readable


def evaluate(
    sql: str,
    tables: Mapping[str, Any],
    *,
    cuts: Iterable[int] | None = None,
    event_time: str | None = None,
    delay: str | datetime.timedelta | None = None,
    fold_labels: bool = True,
    max_threads: int = MAX_THREADS,
) -> pa.Table:
    """Run a query over tables and return its rows.

    Args:
        sql: One SELECT: MATCH_RECOGNIZE, windows, or row-wise.
        tables: Tables by name: Arrow, pandas, polars, or anything with the Arrow interface.
        cuts: Row numbers, ascending, at which one batch ends and its state is carried over to the next.
        event_time: The column with the time of each event. It turns on watermarks: rows wait until no earlier one can
            come, and rows older than the watermark when their batch starts are late and dropped.
        delay: How late rows may be, such as "2 seconds"; by default not at all.
        fold_labels: Whether CLASSIFIER() gives unquoted labels in upper case, as the standard has it.
        max_threads: How many partial matches a key may have under way at once; more is a `ThreadLimitError`.

    The end of the input closes what is open.

    >>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [10, 8, 7, 9]})
    >>> evaluate('''
    ...     SELECT * FROM ticks MATCH_RECOGNIZE (
    ...       ORDER BY ts
    ...       MEASURES S.price AS top, LAST(D.price) AS bottom, U.price AS back
    ...       PATTERN (S D+ U)
    ...       DEFINE D AS D.price < PREV(D.price), U AS U.price > PREV(U.price)
    ...     )''', {"ticks": ticks}).to_pylist()
    [{'top': 10, 'bottom': 7, 'back': 9}]
    """
    if not isinstance(sql, str):
        raise InputError("input.value", f"the query is a {type(sql).__name__}", "write it as a string")
    inputs = {name: readable(as_arrow(name, table)) for name, table in tables.items()}
    if not isinstance(max_threads, int) or max_threads < 1:
        raise InputError("input.max-threads", f"max_threads must be a positive whole number, not {max_threads!r}")
    if event_time is not None and not isinstance(event_time, str):
        raise InputError("input.event-time", f"event_time must be the name of a column, not {event_time!r}")
    if event_time is not None and not any(_column(table, event_time) for table in inputs.values()):
        raise InputError("input.event-time", f"no table has a column {event_time}", "name the column with the times")
    query = compile_query(
        sql, {name: table.schema for name, table in inputs.items()}, fold_labels=fold_labels, event_time=event_time
    )
    table = inputs[query.source]
    edges = _edges(cuts, table.num_rows)
    late_us = delay_us(delay)
    if late_us and event_time is None:
        raise InputError("input.delay", "a delay needs an event_time", "name the column with the time of each event")
    return answer(query, table, edges, event_time=event_time, delay_us=late_us, max_threads=max_threads)


def answer(
    query: Query,
    table: pa.Table,
    edges: list[int],
    *,
    event_time: str | None = None,
    delay_us: int = 0,
    max_threads: int = MAX_THREADS,
) -> pa.Table:
    """The rows of a compiled query over its table; `edges` are where batches begin and end, from 0 to all rows."""
    rows = query.intake.run(table)
    if not query.operator.is_keyed:
        edges, event_time = [0, table.num_rows], None  # each row stands alone, so cuts and times don't matter
    times = None if event_time is None else _event_times(table, event_time)
    outputs = _batches(query, operator_of(query, max_threads=max_threads), rows, edges, times, delay_us)
    return query.finish.run(outputs)


def _batches(query: Query, operator: Operator, rows: pa.Table, edges: list[int], times: Any, delay_us: int) -> pa.Table:
    """Feed the batches one after another and gather what comes out."""
    arrival = rows.column(ARRIVAL).to_numpy()
    if times is None and len(edges) > 2:
        _check_order(query, rows, edges)
    state: State = {}
    outputs: list[pa.Table] = []
    time, rule = StreamTime(), TimeRule(delay_us)
    for start, end in itertools.pairwise(edges):
        inside = np.flatnonzero((arrival >= start) & (arrival < end)) if len(edges) > 2 else None
        batch = rows if inside is None else rows.take(pa.array(inside))
        closing = end == edges[-1]
        if times is not None:
            if time.watermark_us is not None and batch.num_rows:
                batch = batch.filter(pa.array(~is_late(times[batch.column(ARRIVAL).to_numpy()], time.watermark_us)))
            time = time.after({ONLY: int(times[start:end].max())} if end > start else {}, rule)
        try:
            output, state = operator.advance(batch, state, Moment(time.watermark_us, closing))
        except (OverflowError, pa.ArrowInvalid) as error:
            hint = "add up doubles instead: sum(cast(x AS DOUBLE))" if isinstance(error, OverflowError) else ""
            raise InputError("input.value", f"a value doesn't fit its type: {error}", hint) from error
        outputs.append(output)
    return pa.concat_tables(outputs)


def _edges(cuts: Iterable[int] | None, rows: int) -> list[int]:
    try:
        wanted = [] if cuts is None else list(cuts)
    except TypeError as error:
        raise InputError("input.cuts", f"cuts must be row numbers, not {cuts!r}") from error
    for cut in wanted:
        if not isinstance(cut, (int, np.integer)) or not 0 <= cut <= rows:
            raise InputError("input.cuts", f"a cut at {cut!r} is not a row number from 0 to {rows}")
    if sorted(wanted) != wanted:
        raise InputError("input.cuts", "cuts must be in ascending order")
    return [0, *(int(c) for c in wanted), rows]


def _event_times(table: pa.Table, column: str) -> Any:
    name = _column(table, column)
    if name is None:
        raise InputError("input.event-time", f"the table that is read has no column {column}")
    found = table.column(name)
    if not is_time(found.type):
        raise InputError("input.event-time", f"column {column} is {found.type}, not a time", "cast it to TIMESTAMP")
    times, nulls = times_us(found)
    if nulls is not None:
        raise InputError("input.null-time", f"column {column} has a null", "filter such rows out first")
    return times


def _column(table: pa.Table, name: str) -> str | None:
    """The column's own spelling: case doesn't matter, as in Spark."""
    return next((each for each in table.column_names if each.lower() == name.lower()), None)


def _check_order(query: Query, rows: pa.Table, edges: list[int]) -> None:
    """Raise if a row is ordered before rows of an earlier batch: without watermarks these are decided already."""
    order, partition = query.operator.order, query.operator.partition
    if not order or not rows.num_rows:
        return
    batch = np.searchsorted(np.array(edges[1:-1]), rows.column(ARRIVAL).to_numpy(), side="right")
    codes, _ = key_codes([rows.column(c) for c in partition], rows.num_rows)
    sorted_rows = in_order([rows.column(k.column) for k in order], order)
    sequence = np.arange(rows.num_rows) if sorted_rows is None else sorted_rows
    grouped = sequence[np.argsort(codes[sequence], kind="stable")]
    same = codes[grouped[1:]] == codes[grouped[:-1]]
    if np.any(same & (batch[grouped[1:]] < batch[grouped[:-1]])):
        message = "a row comes in a later batch than rows that it is ordered before"
        hint = "give event_time and a delay, so that rows wait for earlier ones"
        raise InputError("input.out-of-order", message, hint)


def as_arrow(name: str, table: Any) -> pa.Table:
    """Any table with the Arrow interface (or a pandas frame) as an Arrow table."""
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    kind = type(table).__module__.split(".")[0]
    if kind == "pyspark":
        hint = f"hand over its rows, {name}.toArrow(), or run the query on Spark with trimtab.Job"
        raise InputError("input.table", f"table {name} is a DataFrame of Spark, and evaluate runs without Spark", hint)
    if kind == "pandas":
        return pa.Table.from_pandas(table, preserve_index=False)
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        return pa.table(table)
    if not isinstance(table, Mapping):
        hint = "hand over an Arrow, pandas or polars table, or anything with __arrow_c_stream__"
        raise InputError("input.table", f"table {name} is a {type(table).__name__}", hint)
    try:
        return pa.table(dict(table))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError("input.table", f"table {name} can't be made of these columns: {error}") from error
