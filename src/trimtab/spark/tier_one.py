"""Tier 1 in the JVM: from a batch of the stream to the columns that queries need, and on to the engines.

Everything is a Spark SQL expression, so code generation compiles it once for the job's life. Lateness is decided by the
engines: a watermark would be written into the code, and each batch would wait for a compiler.

Columns are made once and kept as Java objects: a batch of a thousand rows takes less time to run than a plan of fifty
columns takes to spell out through py4j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import BinaryType, DataType, StructField, StructType
from pyspark.util import PythonEvalType

from trimtab.keyed_state import GROUP_SHIFT
from trimtab.spark.row_hash import arrival_hash, key_hash
from trimtab.spark.settings import on_session
from trimtab.worker.intake import ORIGINAL, PARTITION, Intake, Route
from trimtab.worker.splitter import PIECES, arriving_schema, slot_of

_PIECES = from_arrow_schema(PIECES)
_REPORTS = StructType([StructField("report", BinaryType())])
Task = Callable[[Any], Any]


class TierOne:
    """Tier 1 of one stream, built once and applied to every batch.

    `frame` is the stream itself, or anything with its schema, in the session whose settings apply to tier 1.
    """

    def __init__(self, intake: Intake, frame: DataFrame, key_groups: int, *, keep_original: bool) -> None:
        self._intake, self._spark, self._key_groups = intake, frame.sparkSession, key_groups
        self._own, self._keep_original = _java(frame).sparkSession(), keep_original
        self._steps: list[Any] = [self._sequence(self._passed(frame))]
        if intake.is_computed:
            self._steps.append(self._sequence(self._extracted()))
        computed = self._computed(frame)
        types = {field.name: field.dataType for field in computed.schema.fields}
        found = {name: F.col(name) for name in types}
        if len(self._steps) == 1 and not keep_original:
            # Nothing is computed: one selection does it, and each costs milliseconds of analysis.
            found = {c.name: F.col(_quoted(c.source)) for c in intake.columns}
            found |= {} if intake.partition is None else {PARTITION: self._partition()}
            self._steps, computed = [], frame
        self._sent = self._sequence(self._split(types, found))
        sent = self._select(computed, self._sent)
        self.schema: pa.Schema = arriving_schema(to_arrow_schema(sent.schema, timezone="UTC"), intake)
        self._columns, self._engine = sent.columns, F.col("engine")

    def rows(self, batch: DataFrame) -> DataFrame:
        """The rows of a batch as the splitter gets them."""
        # Analysed with the settings of jobs, and run with those of the stream: its DataFrame keeps its own meaning.
        rows = self._select(self._computed(on_session(batch, self._own)), self._sent)
        return on_session(rows, _java(batch).sparkSession())

    def job(self, batch: DataFrame, splitter: Task, engine: Task, engines: int) -> DataFrame:
        """What the engines report: a batch's rows through the splitter to the engines, as one Spark job."""
        pieces = _mapped(self.rows(batch), splitter, self._columns, _PIECES)
        at_engines = _wrapped(_java(pieces).repartitionById(engines, self._engine._jc), pieces)
        return _mapped(at_engines, engine, _PIECES.names, _REPORTS)

    # Columns -----------------------------------------------------------------------------------

    def _computed(self, rows: DataFrame) -> DataFrame:
        for step in self._steps:
            rows = self._select(rows, step)
        return rows

    def _passed(self, frame: DataFrame) -> list[Column]:
        """Every column of tier 1; computed ones as a struct that is null where computing failed."""
        columns = [
            F.col(_quoted(c.source)).alias(c.name)
            if c.source is not None
            else _attempt(self._spark, F.struct(_typed(c.text, c.type).alias("v"))).alias(c.name)
            for c in self._intake.columns
        ]
        if self._keep_original:
            columns.append(F.struct(*(F.col(_quoted(name)) for name in frame.columns)).alias(ORIGINAL))
        if self._intake.partition is not None:
            columns.append(self._partition().alias(PARTITION))
        return columns

    def _partition(self) -> Column:
        return F.col(_quoted(self._intake.partition)).cast("string")

    def _extracted(self) -> list[Column]:
        columns = [
            F.col(c.name) if c.source is not None else F.col(c.name)["v"].alias(c.name) for c in self._intake.columns
        ]
        columns += [F.col(name) for name in self._beside]
        return columns + [
            reduce(or_, (F.col(name).isNull() for name in r.computed)).alias(r.failed)
            for r in self._intake.readings
            if r.failed is not None
        ]

    def _split(self, types: Mapping[str, DataType], found: Mapping[str, Column]) -> list[Column]:
        """What is sent to the engines: columns, the hash that breaks ties, and a slot for each route."""
        intake = self._intake
        needed = {name for r in intake.readings for _, name in r.columns} | {intake.time}
        needed |= {r.wanted for r in intake.readings if r.wanted is not None}
        needed |= {name for route in intake.routes for name in route.keys}
        names = [c.name for c in intake.columns if c.name in needed]
        names += [r.failed for r in intake.readings if r.failed is not None]

        def typed(columns: Iterable[str]) -> list[tuple[Column, DataType]]:
            return [(found[name], types[name]) for name in columns]

        def slot(route: Route) -> Column:
            # The key group in front and as much of the key's hash as fits, so that sorting by it is group by group.
            key = key_hash(typed(route.keys if route.is_keyed else names))
            group = F.pmod(key, F.lit(self._key_groups))
            return F.shiftleft(group, GROUP_SHIFT).bitwiseOR(F.shiftrightunsigned(key, 64 - GROUP_SHIFT))

        hashes = {r.arrival: arrival_hash(typed(sorted({name for _, name in r.columns}))) for r in intake.readings}
        sent = [found[name].alias(name) for name in names] + [column.alias(name) for name, column in hashes.items()]
        sent += [found[name].alias(name) for name in self._beside]
        return sent + [slot(route).alias(slot_of(number)) for number, route in enumerate(intake.routes)]

    @property
    def _beside(self) -> list[str]:
        """The columns that are sent besides those of the queries."""
        return [ORIGINAL] * self._keep_original + [PARTITION] * (self._intake.partition is not None)

    # Java objects ------------------------------------------------------------------------------

    def _sequence(self, columns: Sequence[Column]) -> Any:
        jvm: Any = self._spark._jvm
        return jvm.PythonUtils.toSeq([column._jc for column in columns])

    @staticmethod
    def _select(rows: DataFrame, columns: Any) -> DataFrame:
        return _wrapped(_java(rows).select(columns), rows)


def check_columns(intake: Intake, frame: DataFrame) -> None:
    """Have Spark analyse the columns that it is to compute, and nothing more; as text, which is one call.

    Raises Spark's own exception for what it doesn't understand.
    """
    computed = [column for column in intake.columns if column.source is None]
    frame.selectExpr(
        *(c.text if c.type is None else f"CAST({c.text} AS {from_arrow_type(c.type).simpleString()})" for c in computed)
    )


def _mapped(frame: DataFrame, task: Task, columns: Sequence[str], schema: StructType) -> DataFrame:
    """The frame through a function of Arrow batches, as `DataFrame.mapInArrow`, in fewer calls of Java."""
    function = pandas_udf(task, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
    column = function(*(F.col(name) for name in columns))
    return _wrapped(_java(frame).mapInArrow(column._jc, False, None), frame)


def _java(frame: DataFrame) -> Any:
    return frame._jdf


def _wrapped(java: Any, like: DataFrame) -> DataFrame:
    return ClassicDataFrame(java, like.sparkSession)


def _quoted(name: str | None) -> str:
    return "`" + str(name).replace("`", "``") + "`"


def _typed(text: str, kind: pa.DataType | None) -> Column:
    column = F.expr(text)
    return column if kind is None else column.cast(from_arrow_type(kind))


def _attempt(spark: SparkSession, column: Column) -> Column:
    """The column, or null where computing it fails: by Spark's `TryEval`, of which its `try_...` functions are made."""
    jvm: Any = spark._jvm
    convert = jvm.org.apache.spark.sql.classic.ExpressionUtils
    attempt = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(convert.expression(column._jc))
    return ClassicColumn(convert.column(attempt))
