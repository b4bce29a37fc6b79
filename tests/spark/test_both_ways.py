"""Tier 1 over columns, tier 1 in the JVM and `evaluate` give the same, on random rows of all types.

    python -m tests.spark.test_both_ways --seeds 0 100

tries the cases of a range of seeds.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from tests.spark.test_splitter import at_engines
from tests.support.both_ways import case_of, expected_of, orders_of, outputs_of, printable
from tests.support.tier_one_cases import KEY_GROUPS, bag
from trimtab.spark.settings import copy_for_jobs, on_session
from trimtab.spark.tier_one import TierOne
from trimtab.worker.intake import ORIGINAL
from trimtab.worker.orders import LATE, QUARANTINE
from trimtab.worker.tier_one import ColumnTierOne


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_ways_are_the_same(seed: int, spark: Any, tmp_path: pathlib.Path) -> None:
    assert differences(seed, spark, str(tmp_path)) == []


def differences(seed: int, spark: Any, folder: str) -> list[str]:
    """What is not the same in a case."""
    case = case_of(seed)
    schema, orders, found = case.rows.schema, orders_of(case, folder), list[str]()
    over_columns = ColumnTierOne(case.intake, schema, KEY_GROUPS, keep_original=True)
    head, parts = over_columns.split(case.rows, orders)
    sent = over_columns.sent_schema()
    columns = outputs_of(case, sent, orders, head, parts)

    made = spark.createDataFrame(case.rows, schema=from_arrow_schema(schema, prefer_timestamp_ntz=True))
    frame = on_session(made, copy_for_jobs(spark))
    in_spark = TierOne(case.intake, frame, KEY_GROUPS, keep_original=True)
    if (sent.names, sent.types) != (in_spark.schema.names, in_spark.schema.types):
        found.append(f"the columns that are sent: {sent} and {in_spark.schema}")
    jvm_head, jvm_parts = at_engines(frame, in_spark, orders)
    if (head.events, dict(head.newest_us)) != (jvm_head.events, dict(jvm_head.newest_us)):
        found.append(f"the heads: {head} and {jvm_head}")
    for number, (one, other) in enumerate(zip(parts, jvm_parts, strict=True)):
        if bag(_shown(one)) != bag(_shown(other)):
            found.append(f"the rows at engine {number}, in {_differing(one, other)}")
    jvm = outputs_of(case, in_spark.schema, orders, jvm_head, [part.cast(in_spark.schema) for part in jvm_parts])
    expected = expected_of(case)
    for name, rows in columns.items():
        if rows != jvm[name]:
            found.append(f"what both ways give for {name}")
        if name in expected and rows != expected[name]:
            found.append(f"what evaluate gives for {name}: {case.queries[name].sql}")
    if not columns[QUARANTINE] or (case.time.before.watermark_us is not None and not columns[LATE]):
        found.append("nothing was set aside")
    return found


def _shown(rows: pa.Table) -> pa.Table:
    """The rows with times as numbers, also inside of whole rows: not all of them are times of Python's."""
    if ORIGINAL in rows.column_names:
        original = rows.column(ORIGINAL).combine_chunks()
        for number, each in enumerate(original.type):
            rows = rows.append_column(f"{ORIGINAL} {each.name}", original.field(number))
        rows = rows.drop_columns([ORIGINAL])
    return rows.cast(pa.schema([each.with_type(printable(each.type)) for each in rows.schema]))


def _differing(one: pa.Table, other: pa.Table) -> list[str]:
    shown, others = _shown(one), _shown(other)
    if shown.num_rows != others.num_rows:
        return [f"their number: {shown.num_rows} and {others.num_rows}"]
    return [name for name in shown.column_names if bag(shown.select([name])) != bag(others.select([name]))]


def main() -> None:
    """Try a range of seeds."""
    from tests.support.spark_laws import SETTINGS
    from trimtab.spark.session import start_session

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 100))
    asked = options.parse_args()
    session = start_session("both ways", "local[2]", SETTINGS)
    for seed in range(*asked.seeds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = differences(seed, session, folder)
            except Exception as error:
                found = [f"raised {type(error).__name__}: {error}"[:600]]
        print(seed, "; ".join(found) or "the same", flush=True)  # noqa: T201 - a command
    session.stop()


if __name__ == "__main__":
    main()
