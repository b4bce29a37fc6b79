"""A batch between the tasks that read it and the engines: two Spark jobs over one shuffle.

The first job reads, computes and shuffles the rows. When it is done, the driver knows the newest time of all of them,
and tells the engines, which the second job runs over what was shuffled: so all engines use one watermark. That takes no
longer than one job of both stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.util import PythonEvalType

_REPORTS = StructType([StructField("report", BinaryType())])
Task = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The shuffle of one batch: `frame` describes it, Spark has planned it as `exchange`, its rows have `columns`."""

    frame: DataFrame
    exchange: Any
    columns: Sequence[Column]

    @staticmethod
    def of(frame: DataFrame, columns: Sequence[Column]) -> Shuffle | None:
        """The shuffle that a frame ends with; None: Spark has found out that it has no rows."""
        java: Any = frame._jdf
        planned = java.queryExecution()
        plan = planned.executedPlan()
        if plan.getClass().getSimpleName() == "ShuffleExchangeExec":
            return Shuffle(frame, plan, columns)
        if planned.optimizedPlan().maxRows().contains(0):
            return None
        raise RuntimeError(f"Spark planned no shuffle, but {plan.nodeName()}")

    def run(self) -> None:
        """Read, compute and shuffle the rows."""
        jvm: Any = self.frame.sparkSession._jvm
        done = self.exchange.submitShuffleJob()
        jvm.org.apache.spark.util.ThreadUtils.awaitReady(done, jvm.scala.concurrent.duration.Duration.Inf())
        done.value().get().get()  # raises what the job has raised

    def reports(self, engine: Task) -> DataFrame:
        """What a function makes of each engine's rows, which are there."""
        java: Any = self.frame._jdf
        rows = java.sparkSession().internalCreateDataFrame(self.exchange.execute(), java.schema(), False)
        # As `DataFrame.mapInArrow`, in fewer calls of Java.
        function = pandas_udf(engine, _REPORTS, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
        return ClassicDataFrame(rows.mapInArrow(function(*self.columns)._jc, False, None), self.frame.sparkSession)
