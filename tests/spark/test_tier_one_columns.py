"""Tier 1 over Arrow columns sends what tier 1 in the JVM sends, to the same engines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from tests.spark.test_splitter import at_engines
from tests.support import query_cases
from tests.support.query_cases import random_case
from tests.support.spreads import spread_over
from tests.support.tier_one_cases import CASES, KEY_GROUPS, SCHEMA, bag, intake_for, orders_for, rows_of
from trimtab.engine.columns.watermark import BatchTime, TimeRule
from trimtab.language.compile import compile_query
from trimtab.spark.settings import copy_for_jobs, on_session
from trimtab.spark.tier_one import TierOne
from trimtab.worker.intake import SLOT, intake_of
from trimtab.worker.tier_one import ColumnTierOne, obstacle_to_columns

TIME = BatchTime(TimeRule(0))


def stream_of(spark: Any, rows: pa.Table) -> Any:
    """The rows as Spark gives a batch's."""
    made = spark.createDataFrame(rows, schema=from_arrow_schema(rows.schema))
    return on_session(made, copy_for_jobs(spark))


@pytest.mark.parametrize("keep_original", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_same_rows_are_sent(case: str, keep_original: bool, spark: Any) -> None:
    rows, intake = rows_of(150, seed=len(case)), intake_for(case, "p" if keep_original else None)
    frame = stream_of(spark, rows)
    in_spark = TierOne(intake, frame, KEY_GROUPS, keep_original=keep_original)
    over_columns = ColumnTierOne(intake, SCHEMA, KEY_GROUPS, keep_original=keep_original)
    sent = in_spark.rows(frame, TIME).toArrow()
    assert bag(over_columns.sent(rows)) == bag(sent)
    schema = over_columns.sent_schema()
    assert (schema.names, schema.types) == (in_spark.schema.names, in_spark.schema.types)


def test_random_queries_are_sent_the_same_rows(spark: Any) -> None:
    compiled = {
        f"q{seed}": compile_query(random_case(seed).sql, {"t": query_cases.SCHEMA}, event_time="ts")
        for seed in range(40)
    }
    alone = {name: intake_of({name: query}, query_cases.SCHEMA, "ts") for name, query in compiled.items()}
    names = [name for name, intake in alone.items() if obstacle_to_columns(intake, query_cases.SCHEMA) is None]
    # In one piece: Spark's createDataFrame drops the rows after an empty chunk, and one of these tables is empty.
    rows = pa.concat_tables([random_case(seed).table for seed in range(40)]).combine_chunks()
    frame = stream_of(spark, rows)
    assert len(names) > 20
    for some in (names[0::3], names[1::3], names[2::3]):
        intake = intake_of({name: compiled[name] for name in some}, query_cases.SCHEMA, "ts")
        in_spark = TierOne(intake, frame, KEY_GROUPS, keep_original=False)
        over_columns = ColumnTierOne(intake, query_cases.SCHEMA, KEY_GROUPS, keep_original=False)
        assert bag(over_columns.sent(rows)) == bag(in_spark.rows(frame, TIME).toArrow())


@pytest.mark.parametrize("case", ["routes", "filtered", "split", "split twice"])
def test_rows_go_to_the_same_engines(case: str, spark: Any) -> None:
    rows, intake = rows_of(300), intake_for(case, "p")
    frame = stream_of(spark, rows)
    over_columns = ColumnTierOne(intake, SCHEMA, KEY_GROUPS, keep_original=False)
    slots = sorted({int(slot) for slot in over_columns.sent(rows)[SLOT].to_pylist()})
    orders = orders_for(TIME, tuple(spread_over(slot, (0, 1, 2)) for slot in slots[:8]))
    head, parts = at_engines(frame, TierOne(intake, frame, KEY_GROUPS, keep_original=False), orders)
    found_head, found = over_columns.split(rows, orders)
    assert (found_head.events, dict(found_head.newest_us)) == (head.events, dict(head.newest_us))
    assert [bag(part) for part in found] == [bag(part) for part in parts]
    assert all(part.num_rows for part in found)
