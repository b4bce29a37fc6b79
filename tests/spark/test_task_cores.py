"""In Spark's tasks, Arrow and DuckDB use as many threads as a task has cores, so that tasks don't fight for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trimtab.rowwise import duck


def threads_of_duckdb() -> int:
    # All rows are fetched, though there is one: DuckDB keeps a connection busy until a result is read to its end.
    [(found,)] = duck.connection().execute("SELECT current_setting('threads')").fetchall()
    return int(found)


def test_duckdb_uses_as_many_threads_as_arrow_and_in_a_task_that_is_one(spark: Any) -> None:
    assert threads_of_duckdb() == pa.cpu_count()
    assert spark.sparkContext.getConf().get("spark.task.cpus", "1") == "1"

    def threads(_: Any) -> Any:
        yield pa.cpu_count(), threads_of_duckdb()

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(threads).collect() == [(1, 1)]
