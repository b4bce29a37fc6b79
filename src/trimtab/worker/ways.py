"""What people are told of the way that the rows of a stream go which trimtab reads itself. See `worker/tier_one.py`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from trimtab.language.compiled import Query
from trimtab.worker.intake import intake_of
from trimtab.worker.tier_one import obstacle_to_columns


def obstacle_told(stream: str, queries: Mapping[str, Query], schema: pa.Schema, event_time: str) -> str | None:
    """Why all rows of a stream go through the JVM, as a sentence; None: they go over columns.

    One query with an obstacle takes all others along: the rows are read and computed once for all of them.

    >>> from trimtab.language.compile import compile_query
    >>> schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "s": pa.string()})
    >>> texts = {"plain": "SELECT s FROM t", "names": "SELECT reverse(s) AS s FROM t"}
    >>> queries = {name: compile_query(text, {"t": schema}) for name, text in texts.items()}
    >>> print(obstacle_told("t", queries, schema, "ts"))
    all rows of stream t go through the JVM, which takes longer than over columns, because of query names: REVERSE(s): \
reverse isn't known to give the same here as in Spark
    """
    found = {
        name: obstacle
        for name, query in queries.items()
        if (obstacle := obstacle_to_columns(intake_of({name: query}, schema, event_time), schema)) is not None
    }
    if not found:
        return None
    slow, [first, *others] = "go through the JVM, which takes longer than over columns", found
    whose = f"query {first}" if not others else f"queries {', '.join(found)}; in {first}"
    return f"all rows of stream {stream} {slow}, because of {whose}: {found[first]}"
