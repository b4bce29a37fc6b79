"""The executors of a Spark application: lists them, requests more, and releases some.

Only a cluster has any: on `local[n]` tasks run in the driver. With `spark.dynamicAllocation.enabled` Spark itself
decides how many there are, and trimtab doesn't change that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from trimtab.spark.where.assignment import Executor

_CLIENT = "org.apache.spark.ExecutorAllocationClient"


class Executors:
    """The executors of the session's application. Methods may be called from any thread."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._context = context._jsc.sc()
        self._backend = self._context.schedulerBackend()
        self.is_cluster = bool(jvm.java.lang.Class.forName(_CLIENT).isInstance(self._backend))
        self.is_elastic = self.is_cluster and bool(self._context.executorAllocationManager().isEmpty())
        self._lock = threading.Lock()
        self._known: tuple[str, tuple[Executor, ...]] = ("", ())
        self._leaving: set[str] = set()

    def live(self) -> tuple[Executor, ...]:
        """The executors that are running, oldest first, without those that were released.

        Asks Spark for their ids, which takes well under a millisecond, and for details only if these have changed.
        """
        if not self.is_cluster:
            return ()
        with self._lock:
            ids = str(self._backend.getExecutorIds().mkString(","))
            if ids != self._known[0]:
                wanted = set(ids.split(",")) if ids else set()
                found = self._described(wanted)
                # Another thread of Spark keeps the details: those of a new executor may not be there yet.
                self._known = (ids if len(found) == len(wanted) else "", found)
                self._leaving &= wanted
            return tuple(each for each in self._known[1] if each.id not in self._leaving)

    @property
    def slots(self) -> int:
        """How many tasks can run at a time on all executors together."""
        return sum(each.slots for each in self.live())

    def request(self, total: int) -> None:
        """Request `total` executors in all; new ones start within seconds, if the cluster has room."""
        assert self.is_elastic
        self._context.requestTotalExecutors(total, 0, self._jvm.PythonUtils.toScalaMap({}))

    def release(self, ids: Iterable[str]) -> None:
        """Release executors. A task that runs on one is run again elsewhere."""
        assert self.is_elastic
        going = list(ids)
        with self._lock:
            self._leaving |= set(going)
        # Lower the total first, or Spark would start others in their place; `killExecutors` must not lower it again.
        self.request(len(self.live()))
        self._backend.killExecutors(self._jvm.PythonUtils.toSeq(going), False, False, True)

    def _described(self, wanted: set[str]) -> tuple[Executor, ...]:
        summaries = self._context.statusStore().executorList(True)
        found = []
        for number in range(summaries.size()):
            each = summaries.apply(number)
            if each.id() in wanted:
                host = str(each.hostPort()).rpartition(":")[0]
                found.append(Executor(each.id(), host, max(1, int(each.maxTasks()))))
        return tuple(sorted(found, key=lambda each: (len(each.id), each.id)))  # ids are numbers
