"""Rows of trimtab's own sources as DataFrames: tasks read the ranges of a batch, each as one Arrow table."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from trimtab.driver.batch_plan import Setup
from trimtab.engine.columns.watermark import BatchTime
from trimtab.sources.source import UNDECODED, Range, Source
from trimtab.spark.carried_errors import carrying
from trimtab.worker.column_splitter import head_of
from trimtab.worker.exchange import head_of_all
from trimtab.worker.intake import SOURCE_PARTITION, SOURCE_POSITION, SOURCE_UNDECODED, own_spelling
from trimtab.worker.measures import Measures
from trimtab.worker.orders import Head
from trimtab.worker.pauses import avoid_pauses
from trimtab.worker.set_aside import taken_and_aside


class _OfAll(AccumulatorParam[Head]):
    def zero(self, value: Head) -> Head:  # noqa: ARG002 - as Spark has it
        return Head()

    def addInPlace(self, value1: Head, value2: Head) -> Head:  # noqa: N802 - as Spark has it
        return head_of_all((value1, value2))


def heads_read(context: SparkContext) -> Accumulator[Head]:
    """What tasks add the heads of what they read to: the rows of a frame have none in which those could travel."""
    return context.accumulator(Head(), _OfAll())


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
        places = StructType(own.fields).add(SOURCE_PARTITION, StringType()).add(SOURCE_POSITION, LongType())
        return places.add(SOURCE_UNDECODED, _UNDECODED)

    def of(self, ranges: Sequence[Range], setup: Setup, time: BatchTime, heads: Accumulator[Head]) -> DataFrame:
        """The rows of some ranges; each is read by one task, which also says which of them are too far ahead.

        The task adds the head of the others to `heads`. Rows have their positions only if whole rows are kept.
        """
        packed = cloudpickle.dumps(self.source)  # type: ignore[no-untyped-call]
        schema, event_time, has_places = self.schema, setup.event_time, setup.keep_original

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            avoid_pauses()
            source: Source = pickle.loads(packed)
            for each in (each for batch in batches for each in batch.column(0).to_pylist()):
                part: Range = pickle.loads(each)
                with carrying():
                    rows = source.read(part)
                measures = Measures.of(rows)
                known = rows if has_places else replace(rows, positions=None)
                taken, aside = taken_and_aside(known, schema, event_time, time, part.partition, with_places=True)
                times = taken.column(str(own_spelling(event_time, schema)))
                head = head_of(times, pa.repeat(part.partition, len(times)), None)
                heads.add(replace(head, measures=measures))
                yield from _for_the_jvm(taken, aside).to_batches()

        parts = [(pickle.dumps(each),) for each in ranges if each.end > each.start]
        # There may be none: a batch can only say where the stream begins.
        tasks = self.spark.sparkContext.parallelize(parts, max(1, len(parts)))
        return self.spark.createDataFrame(tasks, "part binary").mapInArrow(read, self.spark_schema)


_WHERE = pa.struct([UNDECODED.field(name) for name in UNDECODED.names[1:]])  # the partition's name is beside it
_UNDECODED: StructType = from_arrow_schema(pa.schema(list(_WHERE)))


def _for_the_jvm(taken: pa.Table, aside: pa.Table | None) -> pa.Table:
    """The rows, and after them those that were set aside, with the columns of the frame."""
    whole = taken.append_column(SOURCE_UNDECODED, pa.nulls(taken.num_rows, _WHERE))
    if aside is not None:
        *columns, partition, position, value, reason = aside.columns
        parts = [each.combine_chunks() for each in (position, value, reason)]
        why = pa.StructArray.from_arrays(parts, fields=[*_WHERE])
        others = pa.Table.from_arrays([*columns, partition, position, why], schema=whole.schema)
        whole = pa.concat_tables([whole, others])
    return whole.combine_chunks()
