"""Arrow tables as DataFrames: nothing is lost, and types stay."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from trimtab.spark.frames import frame_of

TIMES = pa.schema({"zoned": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")})
NOON = datetime.datetime(2026, 1, 1, 12)


def test_rows_after_an_empty_piece_are_there_and_times_keep_their_types(spark: Any) -> None:
    pieces = [[], [NOON], [], [NOON, NOON]]
    table = pa.concat_tables(pa.table(dict.fromkeys(TIMES.names, piece), schema=TIMES) for piece in pieces)
    assert table.column(0).num_chunks == 4
    frame = frame_of(spark, table)
    assert frame.dtypes == [("zoned", "timestamp"), ("local", "timestamp_ntz")]
    assert frame.toArrow().select(TIMES.names).column("local").to_pylist() == [NOON] * 3
