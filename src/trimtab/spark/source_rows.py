"""Rows of trimtab's own sources as DataFrames: tasks read the ranges of a batch, each as one Arrow table."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructType

from trimtab.engine.columns.watermark import BatchTime
from trimtab.sources.source import UNDECODED, Range, Source
from trimtab.spark.carried_errors import carrying
from trimtab.worker.intake import SOURCE_PARTITION, SOURCE_UNDECODED
from trimtab.worker.measures import Measures
from trimtab.worker.set_aside import taken_and_aside


class _Sum(AccumulatorParam[Measures]):
    def zero(self, value: Measures) -> Measures:  # noqa: ARG002 - as Spark has it
        return Measures()

    def addInPlace(self, value1: Measures, value2: Measures) -> Measures:  # noqa: N802 - as Spark has it
        return value1 + value2


def measured(context: SparkContext) -> Accumulator[Measures]:
    """What tasks add their measures to: the rows of a frame have no head in which those could travel."""
    return context.accumulator(Measures(), _Sum())


def schema_on_spark(source: Source) -> tuple[StructType, pa.Schema]:
    """The columns of a source as Spark has them, and as Arrow has Spark's.

    Raises Spark's error for a type that Spark doesn't have.
    """
    spark: StructType = from_arrow_schema(source.schema, prefer_timestamp_ntz=True)
    return spark, to_arrow_schema(spark, timezone="UTC")


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """Makes the DataFrames of a source's batches; `schema` is that of the source as Arrow has Spark's."""

    spark: SparkSession
    source: Source
    schema: pa.Schema

    @property
    def spark_schema(self) -> StructType:
        """The columns of the frames: those of the source, and where a row comes from."""
        own: StructType = from_arrow_schema(self.schema, prefer_timestamp_ntz=True)
        return StructType(own.fields).add(SOURCE_PARTITION, StringType()).add(SOURCE_UNDECODED, _UNDECODED)

    def of(
        self, ranges: Sequence[Range], event_time: str, time: BatchTime, measures: Accumulator[Measures]
    ) -> DataFrame:
        """The rows of some ranges; each is read by one task, which also says which of them are too far ahead.

        The task adds what it measures to `measures`.
        """
        packed = cloudpickle.dumps(self.source)  # type: ignore[no-untyped-call]
        schema = self.schema

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            source: Source = pickle.loads(packed)
            for each in (each for batch in batches for each in batch.column(0).to_pylist()):
                part: Range = pickle.loads(each)
                with carrying():
                    rows = source.read(part)
                measures.add(Measures.of(rows))
                taken, aside = taken_and_aside(rows, schema, event_time, time, part.partition)
                yield from _for_the_jvm(taken, aside, part).to_batches()

        parts = [(pickle.dumps(each),) for each in ranges if each.end > each.start]
        # There may be none: a batch can only say where the stream begins.
        tasks = self.spark.sparkContext.parallelize(parts, max(1, len(parts)))
        return self.spark.createDataFrame(tasks, "part binary").mapInArrow(read, self.spark_schema)


_WHERE = pa.struct([UNDECODED.field(name) for name in UNDECODED.names[1:]])  # the partition's name is beside it
_UNDECODED: StructType = from_arrow_schema(pa.schema(list(_WHERE)))


def _for_the_jvm(taken: pa.Table, aside: pa.Table | None, part: Range) -> pa.Table:
    """The rows with where they come from, and after them those that were set aside."""
    whole = taken.append_column(SOURCE_UNDECODED, pa.nulls(taken.num_rows, _WHERE))
    if aside is not None:
        *columns, position, value, reason = aside.columns
        parts = [each.combine_chunks() for each in (position, value, reason)]
        why = pa.StructArray.from_arrays(parts, fields=[*_WHERE])
        others = pa.Table.from_arrays([*columns[:-1], why], schema=whole.schema)  # the partition's name follows below
        whole = pa.concat_tables([whole, others])
    whole = whole.combine_chunks()
    name = pa.repeat(pa.scalar(part.partition, pa.string()), whole.num_rows)
    return whole.add_column(whole.num_columns - 1, SOURCE_PARTITION, name)
