"""The law of cutting, for a query and for an operator of your own; and the rules of an operator's `merge`.

Cuts are drawn from a seed. If some change the answer, as few of them as possible are reported.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from trimtab.api.evaluate import as_arrow, evaluate
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import ONLY, StreamTime, TimeRule
from trimtab.engine.keyed.description import KeyedOperator
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, Operator, State
from trimtab.errors import InputError
from trimtab.language.compile import compile_query
from trimtab.language.intervals import delay_us
from trimtab.language.readable import readable
from trimtab.testing.rows import difference

TRIES = 50
PARTS = 3


class BrokenLawError(AssertionError):
    """The same rows gave different answers. `cuts`: where they were cut; empty if cuts aren't the reason."""

    def __init__(self, message: str, cuts: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.cuts = list(cuts)


def check_cuts(
    sql: str,
    tables: Mapping[str, Any],
    *,
    event_time: str | None = None,
    delay: str | datetime.timedelta | None = None,
    tries: int = TRIES,
    seed: int = 0,
) -> pa.Table:
    """Check that a query gives the same answer however its rows are cut into batches; return the answer.

    The query is evaluated whole, with a batch for each row, and cut at random places; a table with
    fewer rows than `tries` is also cut at every single place.

    Args:
        sql: The query, as `evaluate` takes it.
        tables: Its tables. The one that it reads may have no rows that are later than `delay` allows.
        event_time: The column with the time of each event; without it, rows are taken in the order they have.
        delay: How late rows may be.
        tries: How many ways of cutting are tried.
        seed: Where the random choices start from.

    Raises:
        BrokenLawError: With the cuts that changed the answer, and the rows that differ.
    """
    inputs = {name: as_arrow(name, table) for name, table in tables.items()}
    run = partial(evaluate, sql, inputs, event_time=event_time, delay=delay)
    run()  # raises for any mistake in the query and its tables
    schemas = {name: readable(table.slice(0, 0)).schema for name, table in inputs.items()}
    table = inputs[compile_query(sql, schemas, event_time=event_time).source]
    if event_time is not None:
        time = next(name for name in table.column_names if name.lower() == event_time.lower())
        _check_delay(times_us(table[time])[0], delay_us(delay))
    return _check(lambda cuts: run(cuts=cuts), table.num_rows, tries, seed)


def check_operator(
    operator: KeyedOperator,
    table: Any,
    *,
    partition_by: str | Sequence[str] = (),
    event_time: str | None = None,
    delay: str | datetime.timedelta | None = None,
    tries: int = TRIES,
    seed: int = 0,
) -> pa.Table:
    """Check that an operator of your own keeps its rules on these rows; return its output.

    1. It gives the same output a second time, and however the rows are cut into batches. Between batches the state is
       written as Arrow and read again, as a checkpoint does.
    2. If it has a `merge`: a key's rows, divided among three logics, give no output before their states are merged, and
       then the same as one logic, in any order of merging.

    Args:
        operator: The description, with its arguments. It need not be registered.
        table: The rows, in the order of their arrival.
        partition_by: The columns of the key; by default all rows have one key.
        event_time: The column with the time of each event, by which rows are ordered and `on_time` is called.
        delay: How late rows may be.
        tries: How many ways of cutting, and of dividing rows among logics, are tried.
        seed: Where the random choices start from.

    Raises:
        BrokenLawError: With what was done, and the rows that differ.
        OperatorError: Where the operator fails or returns something other than it declares.
    """
    rows = readable(as_arrow("of rows", table))
    rows = rows.append_column(ARRIVAL, pa.array(np.arange(rows.num_rows)))
    names = tuple(rows.column_names[:-1]) if operator.columns is None else operator.columns
    partition = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    for name in (*names, *partition, *([] if event_time is None else [event_time])):
        if name not in rows.column_names:
            raise InputError("input.table", f"the rows have no column {name}", f"they have {', '.join(names)}")
    order = () if event_time is None else (OrderKey(event_time),)
    description = KeyedQuery(type(operator).__name__, operator, partition, order, tuple((name, name) for name in names))
    query = description.open()
    times = None if event_time is None else times_us(rows[event_time])[0]
    late_us = delay_us(delay)
    if times is not None:
        _check_delay(times, late_us)
    whole = _check(partial(_advanced, query, rows, times, late_us), rows.num_rows, tries, seed)
    if operator.merges:
        newest_us = {} if times is None or not len(times) else {ONLY: int(times.max())}
        watermark_us = StreamTime().after(newest_us, TimeRule(late_us)).watermark_us
        _check_merge(query, rows, watermark_us, whole, tries, seed)
    return whole


def _check(run: Callable[[Sequence[int]], pa.Table], rows: int, tries: int, seed: int) -> pa.Table:
    whole = run([])
    if text := difference(whole, run([])):
        raise BrokenLawError(f"the same rows in one batch give another answer the second time\n{text}")
    for cuts in _ways_of_cutting(rows, tries, random.Random(seed)):
        if difference(whole, run(cuts)):
            cuts = _fewest(cuts, lambda fewer: bool(difference(whole, run(fewer))))
            text = difference(whole, run(cuts))
            raise BrokenLawError(f"cut at {cuts} the rows give another answer than uncut\n{text}", cuts)
    return whole


def _ways_of_cutting(rows: int, tries: int, dice: random.Random) -> Iterator[list[int]]:
    places = range(1, rows)
    if not places or tries < 1:
        return
    singles = list(places) if len(places) < tries else sorted(dice.sample(places, tries // 2))
    for place in singles:
        yield [place]
    yield list(places)
    for _ in range(max(0, tries - len(singles) - 1)):
        yield sorted(dice.sample(places, dice.randint(1, len(places))))


def _fewest(cuts: list[int], differs: Callable[[list[int]], bool]) -> list[int]:
    """As few of the cuts as still change the answer: each is left out if the others alone change it."""
    for cut in list(cuts):
        fewer = [each for each in cuts if each != cut]
        if fewer and differs(fewer):
            cuts = fewer
    return cuts


def _check_delay(times: np.ndarray[tuple[int], np.dtype[np.int64]], late_us: int) -> None:
    """Raise for rows later than the delay: the cuts decide whether they are dropped, so no law covers them."""
    if late := np.flatnonzero(np.maximum.accumulate(times) - times > late_us).tolist():
        older_s = (int(times[: late[0]].max()) - int(times[late[0]])) / 1e6
        message = f"row {late[0]} is {older_s:g} seconds older than a row before it, and the delay is {late_us / 1e6:g}"
        raise InputError("input.delay", message, "raise the delay, or leave late rows out: they are dropped by batch")


def _advanced(query: Operator, rows: pa.Table, times: Any, late_us: int, cuts: Sequence[int]) -> pa.Table:
    state, outputs, time = dict[str, pa.Table](), list[pa.Table](), StreamTime()
    edges = [0, *cuts, rows.num_rows]
    for number, (start, end) in enumerate(itertools.pairwise(edges), start=1):
        if times is not None:
            time = time.after({ONLY: int(times[start:end].max())} if end > start else {}, TimeRule(late_us))
        moment = Moment(time.watermark_us, closing=number == len(edges) - 1)
        output, after = query.advance(rows.slice(start, end - start), state, moment)
        state = {name: _through_arrow(table) for name, table in after.items()}
        outputs.append(output)
    return pa.concat_tables(outputs).drop_columns([TIME_US])


def _through_arrow(table: pa.Table) -> pa.Table:
    written = pa.BufferOutputStream()
    with pa.ipc.new_file(written, table.schema) as file:
        file.write_table(table)
    return pa.ipc.open_file(written.getvalue()).read_all()


def _check_merge(
    query: Operator, rows: pa.Table, watermark: int | None, whole: pa.Table, tries: int, seed: int
) -> None:
    dice = np.random.default_rng(seed)
    for _ in range(tries):
        dealt = dice.integers(0, PARTS, rows.num_rows)
        states: list[State] = []
        for part in range(PARTS):
            output, state = query.advance(rows.filter(pa.array(dealt == part)), {}, Moment())
            if output.num_rows:
                message = f"it has a merge, but on_rows returns rows before parts are merged: {output.to_pylist()[0]}"
                raise BrokenLawError(f"{message}\nreturn them in on_time or on_close, when all parts are merged")
            states.append(state)
        one, two, three = states
        schema = rows.schema
        for what, merged in (
            ("the first two parts, then the third", query.merge([query.merge([one, two], schema), three], schema)),
            ("the last two parts, then the first", query.merge([one, query.merge([two, three], schema)], schema)),
        ):
            output, _ = query.advance(rows.slice(0, 0), merged, Moment(watermark, closing=True))
            if text := difference(whole, output.drop_columns([TIME_US])):
                parts = ", ".join(str(np.flatnonzero(dealt == part).tolist()) for part in range(PARTS))
                raise BrokenLawError(f"merged ({what}), rows {parts} give another answer than together\n{text}")
