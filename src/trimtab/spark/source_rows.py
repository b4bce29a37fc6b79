"""Rows of trimtab's own sources as DataFrames: tasks read the ranges of a batch, each as one Arrow table."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructType

from trimtab.sources.source import Range, Source
from trimtab.worker.exchange import rows_of
from trimtab.worker.intake import SOURCE_PARTITION


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
        """The columns of the frames: those of the source, and the partition's name."""
        own: StructType = from_arrow_schema(self.schema, prefer_timestamp_ntz=True)
        return StructType(own.fields).add(SOURCE_PARTITION, StringType())

    def of(self, ranges: Sequence[Range]) -> DataFrame:
        """The rows of some ranges; each is read by one task."""
        packed = cloudpickle.dumps(self.source)  # type: ignore[no-untyped-call]
        schema = self.schema

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            source: Source = pickle.loads(packed)
            for batch in batches:
                for each in batch.column(0).to_pylist():
                    part: Range = pickle.loads(each)
                    table = rows_of(source, part, schema)
                    name = pa.repeat(pa.scalar(part.partition, pa.string()), table.num_rows)
                    yield from table.append_column(SOURCE_PARTITION, name).to_batches()

        parts = [(pickle.dumps(each),) for each in ranges]
        tasks = self.spark.createDataFrame(self.spark.sparkContext.parallelize(parts, len(parts)), "part binary")
        return tasks.mapInArrow(read, self.spark_schema)
