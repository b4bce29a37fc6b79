"""Tier 1 in the JVM, and the splitter behind it: from a batch of the stream to rows at their engines.

Everything is a Spark SQL expression, so code generation compiles it once for the job's life. What changes from batch
to batch (the placement) is an array literal, which generated code reads through a reference; a plain number would be
written into the code, and each batch would wait for a compiler. Lateness is decided by the engines for that reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from trimtab.runtime.intake_plan import ORIGINAL, ROUTE, SLOT, IntakePlan, Reading, Route
from trimtab.runtime.placement import Placement


@dataclass(frozen=True, slots=True)
class Observed:
    """What tier 1 saw of a batch: all rows of the stream, whether a query wants them or not."""

    events: int
    newest: Any


class Intake:
    """Tier 1 and the splitter of one stream, built once and applied to every batch."""

    def __init__(
        self, plan: IntakePlan, spark: SparkSession, schema: Any, key_groups: int, keep_original: bool
    ) -> None:
        self.plan = plan
        self._spark = spark
        self._key_groups = key_groups
        source = next(c.source for c in plan.columns if c.name == plan.time)
        self._time_type = schema[source].dataType.typeName()
        self._type_names: dict[str, str] = {}
        self._passed = [F.col(_quoted(c.source)).alias(c.name) for c in plan.columns if c.source is not None]
        self._passed += [
            _attempt(spark, F.struct(_typed(c.text, c.type).alias("v"))).alias(c.name)
            for c in plan.columns
            if c.source is None
        ]
        if keep_original:
            self._passed.append(F.struct(*(F.col(_quoted(name)) for name in schema.names)).alias(ORIGINAL))
        self._extracted = [_extracted(c.name, c.source is not None) for c in plan.columns]
        if keep_original:
            self._extracted.append(F.col(ORIGINAL))
        self._extracted += [
            _any([F.col(name).isNull() for name in r.computed]).alias(r.failed)
            for r in plan.readings
            if r.failed is not None
        ]
        self._has_computed = any(c.source is None for c in plan.columns)
        self._wanted = self._where() if plan.is_filtered else None
        sent = [c.name for c in plan.columns if c.name in self._sent_names()]
        sent += [r.failed for r in plan.readings if r.failed is not None]
        sent += [ORIGINAL] if keep_original else []
        self._sent = sent

    def apply(self, batch: DataFrame, placement: Placement) -> tuple[DataFrame, Observation | None]:
        """The batch's rows, each at its engine's partition, and the observation to ask once the job is done."""
        rows = batch.select(*self._passed)
        if self._has_computed:
            rows = rows.select(*self._extracted)
        observation = None
        if self._wanted is not None:
            # Rows that are left out still tell the time.
            observation = Observation()
            rows = rows.observe(observation, F.count(F.lit(1)).alias("events"), F.max(self._time_us()).alias("newest"))
            rows = rows.filter(self._wanted)
        table = F.from_json(F.lit(json.dumps(placement.owner)), "array<int>")
        return self._split(rows, table, placement.engines), observation

    def arrow_schema(self, batch: DataFrame) -> pa.Schema:
        """The schema in which rows arrive at the engines, with times in UTC."""
        rows, _ = self.apply(batch, Placement.even(1, self._key_groups))
        return to_arrow_schema(rows.schema, timezone="UTC")

    def _split(self, rows: DataFrame, table: Column, engines: int) -> DataFrame:
        plan = self.plan
        arrivals = {r.arrival: _hash(sorted({c for _, c in r.columns}), self._types(rows)) for r in plan.readings}
        hashed = [column.alias(name) for name, column in arrivals.items()]
        if len(plan.routes) == 1:
            whole = F.lit(self._key_groups)
            rows = rows.select(*self._sent, *hashed, self._key(plan.routes[0], rows).alias("__hash"))
            group = F.pmod("__hash", whole)
            at = rows.repartitionById(engines, F.element_at(table, (group + 1).cast("int")))
            return at.select(*self._sent, *arrivals, self._slot(F.col("__hash")).alias(SLOT))
        ways = [
            F.struct(F.lit(number).cast("int").alias(ROUTE), self._key(route, rows).alias("__hash"))
            for number, route in enumerate(plan.routes)
        ]
        rows = rows.select(*self._sent, *hashed, F.inline(F.array(*ways)))
        group = F.pmod("__hash", F.lit(self._key_groups))
        at = rows.repartitionById(engines, F.element_at(table, (group + 1).cast("int")))
        return at.select(*self._sent, *arrivals, ROUTE, self._slot(F.col("__hash")).alias(SLOT))

    def _slot(self, hashed: Column) -> Column:
        group = F.pmod(hashed, F.lit(self._key_groups))
        return F.shiftleft(group, 48).bitwiseOR(F.shiftrightunsigned(hashed, 16))

    def _key(self, route: Route, rows: DataFrame) -> Column:
        if route.is_keyed:
            return _hash(route.keys, self._types(rows))
        return _hash([c for c in self._sent if c != ORIGINAL], self._types(rows))

    def _types(self, rows: DataFrame) -> dict[str, str]:
        if not self._type_names:  # asking costs a round trip to the JVM, and they never change
            self._type_names = {field.name: field.dataType.typeName() for field in rows.schema.fields}
        return self._type_names

    def _time_us(self) -> Column:
        """The event time in microseconds since 1970, as the engines count."""
        time = self.plan.time
        match self._time_type:
            case "date":
                return F.expr(f"unix_date({time}) * 86400000000L")
            case "timestamp_ntz":
                return F.expr(f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {time})")
            case _:
                return F.unix_micros(time)

    def _sent_names(self) -> set[str]:
        names = {name for r in self.plan.readings for _, name in r.columns} | {self.plan.time}
        names |= {r.wanted for r in self.plan.readings if r.wanted is not None and len(self.plan.readings) > 1}
        return names | {name for route in self.plan.routes for name in route.keys}

    def _where(self) -> Column:
        def holds(reading: Reading) -> Column:
            wanted = F.coalesce(F.col(str(reading.wanted)), F.lit(False))
            return wanted if reading.failed is None else wanted | F.col(reading.failed)

        return _any([holds(reading) for reading in self.plan.readings])


def _quoted(name: str | None) -> str:
    return "`" + str(name).replace("`", "``") + "`"


def _typed(text: str, kind: pa.DataType | None) -> Column:
    column = F.expr(text)
    return column if kind is None else column.cast(from_arrow_type(kind))


def _extracted(name: str, is_passed: bool) -> Column:
    return F.col(name) if is_passed else F.col(name)["v"].alias(name)


def _any(columns: Sequence[Column]) -> Column:
    found = columns[0]
    for column in columns[1:]:
        found = found | column
    return found


def _hash(names: Sequence[str], types: dict[str, str]) -> Column:
    """Spark's hash of some columns; equal values give equal hashes, so there is one zero."""
    columns = [
        F.col(name) + F.lit(0.0).cast(types[name]) if types[name] in ("double", "float") else F.col(name)
        for name in names
        if types[name] != "map"  # Spark has no hash of maps
    ]
    return F.xxhash64(*columns) if columns else F.lit(42).cast("bigint")


def _attempt(spark: SparkSession, column: Column) -> Column:
    """The column, or null where computing it fails: by Spark's `TryEval`, of which its `try_...` functions are made."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    jvm: Any = spark._jvm
    convert = jvm.org.apache.spark.sql.classic.ExpressionUtils
    attempt = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(convert.expression(column._jc))
    return ClassicColumn(convert.column(attempt))
