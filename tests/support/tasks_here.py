"""Spark's tasks without Spark: what sinks have tasks do is done at once, in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from pyspark import cloudpickle
from pyspark.sql import SparkSession


class TasksHere:
    """As much of a session, its context and an RDD as `in_tasks` needs."""

    def __init__(self) -> None:
        self.jobs = 0
        self._rows: Sequence[Any] = ()
        self._work: Callable[[Iterable[Any]], Iterator[Any]] = iter

    @property
    def session(self) -> SparkSession:
        return cast(SparkSession, self)

    @property
    def sparkContext(self) -> TasksHere:  # noqa: N802 - Spark's name
        return self

    def parallelize(self, rows: Sequence[Any], tasks: int) -> TasksHere:
        assert tasks == len(rows)
        self._rows = rows
        return self

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterator[Any]]) -> TasksHere:  # noqa: N802 - Spark's name
        self._work = work
        return self

    def collect(self) -> list[Any]:
        """What the tasks answer; what goes to them and comes back is pickled, as by Spark."""
        self.jobs += 1
        tasks = [_as_if_sent((self._work, [row])) for row in self._rows]
        return [_as_if_sent(answer) for work, rows in tasks for answer in work(rows)]


def _as_if_sent(value: Any) -> Any:
    return pickle.loads(cast(Any, cloudpickle).dumps(value))
