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

from trimtab.sources.source import UNDECODED, Range, Rows, Source
from trimtab.worker.exchange import typed
from trimtab.worker.intake import SOURCE_PARTITION, SOURCE_UNDECODED


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

    def of(self, ranges: Sequence[Range]) -> DataFrame:
        """The rows of some ranges; each is read by one task."""
        packed = cloudpickle.dumps(self.source)  # type: ignore[no-untyped-call]
        schema = self.schema

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            source: Source = pickle.loads(packed)
            for batch in batches:
                for each in batch.column(0).to_pylist():
                    part: Range = pickle.loads(each)
                    yield from _for_the_jvm(source.read(part), part, schema).to_batches()

        parts = [(pickle.dumps(each),) for each in ranges if each.end > each.start]
        tasks = self.spark.createDataFrame(self.spark.sparkContext.parallelize(parts, len(parts)), "part binary")
        return tasks.mapInArrow(read, self.spark_schema)


_WHERE = pa.struct([UNDECODED.field(name) for name in UNDECODED.names[1:]])  # the partition's name is beside it
_UNDECODED: StructType = from_arrow_schema(pa.schema(list(_WHERE)))


def _for_the_jvm(rows: Rows, part: Range, schema: pa.Schema) -> pa.Table:
    """The rows with where they come from; one that couldn't be decoded is a row of nulls."""
    table = typed(rows.table, schema)
    bad = UNDECODED.empty_table() if rows.undecoded is None else rows.undecoded.cast(UNDECODED)
    of_good = table.append_column(SOURCE_UNDECODED, pa.nulls(table.num_rows, _WHERE))
    values = bad.select(UNDECODED.names[1:]).to_struct_array().combine_chunks()
    of_bad = pa.table([*(pa.nulls(bad.num_rows, kind) for kind in schema.types), values], schema=of_good.schema)
    whole = pa.concat_tables([of_good, of_bad]).combine_chunks()
    name = pa.repeat(pa.scalar(part.partition, pa.string()), whole.num_rows)
    return whole.add_column(whole.num_columns - 1, SOURCE_PARTITION, name)
