"""Tier 1 in the JVM: from a batch of the stream to the columns that queries need, each row at its engine.

Everything is a Spark SQL expression, so code generation compiles it once for the job's life. Lateness is decided by the
engines: a watermark would be written into the code, and each batch would wait for a compiler.

Columns are made once and kept as Java objects: a batch of a thousand rows takes less time to run than a plan of fifty
columns takes to spell out through py4j.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType

from trimtab.engine.columns.watermark import BatchTime
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.spark.heads import HeadWatch
from trimtab.spark.row_hash import arrival_hash, key_hash
from trimtab.spark.settings import on_session
from trimtab.spark.shuffle import Shuffle
from trimtab.spark.splitter import Splitter
from trimtab.worker.intake import (
    ORIGINAL,
    PARTITION,
    POSITION,
    ROUTE,
    SLOT,
    SOURCE_PARTITION,
    SOURCE_POSITION,
    SOURCE_UNDECODED,
    Intake,
    Reading,
    Route,
)
from trimtab.worker.orders import Head, Orders


class TierOne:
    """Tier 1 of one stream, built once and applied to every batch.

    `frame` is the stream itself, or anything with its schema, in the session whose settings apply to tier 1.
    """

    def __init__(self, intake: Intake, frame: DataFrame, key_groups: int, *, keep_original: bool) -> None:
        self._intake, self._spark, self._key_groups = intake, frame.sparkSession, key_groups
        self._keep_original = keep_original
        self._has_places = keep_original and intake.is_of_source
        # What is computed is analysed with the settings of jobs; where nothing is, a change of sessions would only take
        # milliseconds. All of it runs with the settings of the stream: its DataFrame keeps its own meaning.
        self._own = _java(frame).sparkSession() if intake.is_computed or intake.partition else None
        self._steps: list[Any] = [self._sequence(self._passed(frame))]
        if intake.is_computed:
            self._steps.append(self._sequence(self._extracted()))
        computed = self._computed(frame)
        self._where = self._wanted() if intake.is_filtered else None
        types = {field.name: field.dataType for field in computed.schema.fields}
        found = {name: F.col(name) for name in types}
        if len(self._steps) == 1 and self._where is None and not keep_original:
            # Nothing is computed: one selection does it, and each costs milliseconds of analysis.
            found = {c.name: F.col(_quoted(c.source)) for c in intake.columns}
            found |= {} if intake.partition is None else {PARTITION: self._partition()}
            found |= {SOURCE_UNDECODED: F.col(SOURCE_UNDECODED)} if intake.is_of_source else {}
            self._steps, computed = [], frame
        partition = found.get(PARTITION)
        self._heads = HeadWatch(found[intake.time], types[intake.time], partition, intake.is_of_source)
        self._sent = self._sequence(self._split(types, found))
        self.schema: pa.Schema = to_arrow_schema(self._select(computed, self._sent).schema, timezone="UTC")
        self._splitter, self._inputs = Splitter(intake, self._spark), [F.col(name) for name in self.schema.names]

    def rows(self, batch: DataFrame, time: BatchTime) -> DataFrame:
        """The rows of a batch as the splitter gets them."""
        rows = self._heads.watched(self._computed(self._analysed(batch)), time)
        if self._where is not None:  # rows that are left out here still count, and raise the watermark
            rows = _wrapped(_java(rows).filter(self._where._jc), rows)
        return self._select(rows, self._sent)

    def shuffle(self, batch: DataFrame, orders: Orders) -> Shuffle | None:
        """A batch's rows, on their way to the engines; None: Spark knows that there are none."""
        rows = self.rows(batch, orders.time)
        at_engines = _wrapped(_java(rows).repartitionById(orders.engines, self._splitter.engine(orders)), rows)
        if self._own is not None:
            at_engines = on_session(at_engines, _java(batch).sparkSession())
        return Shuffle.of(at_engines, self._inputs)

    def head(self, batch: DataFrame, shuffle: Shuffle, time: BatchTime) -> Head:
        """What is known of all rows of a batch whose shuffle has run."""
        return self._heads.observed(shuffle.frame, time) or self._heads.computed(
            self._computed(self._analysed(batch)), time
        )

    def _analysed(self, batch: DataFrame) -> DataFrame:
        return batch if self._own is None else on_session(batch, self._own)

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
            hidden = (SOURCE_PARTITION, SOURCE_POSITION, SOURCE_UNDECODED)
            own = [F.col(_quoted(name)) for name in frame.columns if name not in hidden]
            columns.append(F.struct(*own).alias(ORIGINAL))
        if self._intake.partition is not None:
            columns.append(self._partition().alias(PARTITION))
        if self._has_places:
            columns.append(F.col(SOURCE_POSITION).alias(POSITION))
        if self._intake.is_of_source:
            columns.append(F.col(SOURCE_UNDECODED))
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

    def _wanted(self) -> Column:
        def holds(reading: Reading) -> Column:
            wanted = F.coalesce(F.col(str(reading.wanted)), F.lit(False))
            return wanted if reading.failed is None else wanted | F.col(reading.failed)

        wanted = reduce(or_, map(holds, self._intake.readings))
        return wanted | F.col(SOURCE_UNDECODED).isNotNull() if self._intake.is_of_source else wanted

    def _split(self, types: Mapping[str, DataType], found: Mapping[str, Column]) -> list[Column]:
        """What is sent to the engines: columns, the hash that breaks ties, and the slot; a row for each route."""
        intake = self._intake
        needed = {name for r in intake.readings for _, name in r.columns} | {intake.time}
        needed |= {r.wanted for r in intake.readings if r.wanted is not None and len(intake.readings) > 1}
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

        hashes = {r.arrival: arrival_hash(typed(r.ties)) for r in intake.readings}
        sent = [found[name].alias(name) for name in names] + [column.alias(name) for name, column in hashes.items()]
        sent += [found[name].alias(name) for name in self._beside]
        if len(intake.routes) == 1:
            return [*sent, slot(intake.routes[0]).alias(SLOT)]
        ways = [
            F.struct(F.lit(number).cast("int").alias(ROUTE), slot(route).alias(SLOT))
            for number, route in enumerate(intake.routes)
        ]
        return [*sent, F.inline(F.array(*ways))]

    @property
    def _beside(self) -> list[str]:
        """The columns that are sent besides those of the queries."""
        named, of_source = self._intake.partition is not None, self._intake.is_of_source
        places = [PARTITION] * named + [POSITION] * self._has_places
        return [ORIGINAL] * self._keep_original + places + [SOURCE_UNDECODED] * of_source

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
