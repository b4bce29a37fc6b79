"""The combiner: the output rows of all engines in a batch, as one table in the order of event time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trimtab.engine.operator import TIME_US
from trimtab.worker.orders import Output


def combine(outputs: Sequence[Output]) -> tuple[pa.Table | None, tuple[str, ...]]:
    """The rows of all engines in event-time order, and the names of the files with outputs too large for a report.

    None: no engine put anything out. The table has all columns, also if all rows are in files.
    """
    if not outputs:
        return None, ()
    tables = [pa.ipc.open_stream(output.inline).read_all() for output in outputs]
    files = tuple(output.file for output in outputs if output.file)
    names = [name for name in tables[0].column_names if name != TIME_US]
    if files:  # their rows are in order already, and have no times any more
        tables = [table for table in tables if table.num_rows] or [tables[0].select(names)]
    table = pa.concat_tables(tables)
    if TIME_US in table.column_names:
        times = table.column(TIME_US).fill_null(0).to_numpy()
        if np.any(times[1:] < times[:-1]):  # may also be so with a single engine: its rows are ordered by key
            table = table.take(pa.array(np.argsort(times, kind="stable")))
        table = table.drop_columns([TIME_US])
    return table.combine_chunks(), files
