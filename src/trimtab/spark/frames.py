"""Arrow tables as DataFrames: all rows, and the types that the columns have."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of a table; a time without a zone is a TIMESTAMP_NTZ."""
    whole = table.combine_chunks()  # `createDataFrame` drops the rows that come after an empty chunk
    # Left to itself it takes a time without a zone for one of the session's zone.
    return spark.createDataFrame(whole, schema=from_arrow_schema(whole.schema, prefer_timestamp_ntz=True))
