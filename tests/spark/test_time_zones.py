"""A query computes in UTC, whatever the time zone of the session, of the machine and of the data."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.bench import SCHEMA, Bench, events, finished
from tests.support.laws import bag
from tests.support.spark_laws import SETTINGS, in_zone, naive
from trimtab import evaluate

HOURS = "SELECT k, HOUR(ts) AS hour, CAST(ts AS DATE) AS day, CAST(ts AS STRING) AS text FROM t WHERE HOUR(ts) < 12"
BOTH = """
    SELECT *, CAST(last AS STRING) AS last_text, CAST(last AS DATE) AS last_day FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts
      MEASURES HOUR(A.ts) AS before, HOUR(MAX(B.ts)) AS after, CAST(A.ts AS STRING) AS text, MAX(B.ts) AS last
      PATTERN (A B) DEFINE B AS B.ts > TIMESTAMP'2026-01-01 00:00:00')"""
DAYS = "SELECT k, window.start AS day, COUNT(*) AS n FROM t GROUP BY k, window(ts, '1 day')"
QUERIES = {"hours": HOURS, "both": BOTH, "days": DAYS}
ROWS = events((1, 0, 1), (1, 3600, 2), (2, 30_000, 3), (2, 80_000, 4))
ZONES = ("UTC", "Asia/Tokyo", "America/St_Johns")


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, spark: Any) -> Iterator[str]:
    with in_zone(spark, request.param):
        yield request.param


def given(bench: Bench, query: str) -> list[str]:
    return bag(naive(pa.Table.from_pylist(bench.rows(query))))


@pytest.mark.usefixtures("zone")
def test_a_job_gives_what_evaluate_gives_whatever_the_zone_of_the_session(bench: Bench) -> None:
    bench.run(ROWS.slice(0, 3), ROWS.slice(3), close=True, **QUERIES)
    for name, sql in QUERIES.items():
        assert given(bench, name) == bag(evaluate(sql, {"t": ROWS})), name
    assert [row["before"] for row in bench.rows("both")] == [0, 8]


def test_a_restart_in_another_zone_changes_nothing(bench: Bench, spark: Any) -> None:
    for part, zone in enumerate(ZONES):
        with in_zone(spark, zone):
            bench.run(ROWS.slice(part, 1 + (part == 2)), close=part == 2, **QUERIES)
    for name, sql in QUERIES.items():
        assert given(bench, name) == bag(evaluate(sql, {"t": ROWS})), name


def test_the_users_own_dataframe_keeps_the_zone_of_the_session(bench: Bench, spark: Any) -> None:
    """Also in what Spark decides late: how a text file is read, and what a pandas function gets."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas import functions as pandas_functions

    folder = bench.folder / "text"
    folder.mkdir()
    (folder / "1.csv").write_text("1,2026-01-01 09:00:00\n1,2026-01-01 10:00:00\n")
    with in_zone(spark, "Asia/Tokyo"):
        pandas_udf: Any = pandas_functions.pandas_udf  # its overloads don't know lambdas
        own_hour = pandas_udf(lambda times: times.dt.hour.astype("int64"), "long")
        rows = spark.readStream.schema("k BIGINT, ts TIMESTAMP").csv(str(folder))
        frame = rows.withColumn("hour", F.hour("ts")).withColumn("pandas_hour", own_hour("ts"))
        job = bench.job()
        job.stream("u", frame, event_time="ts")
        sql = "SELECT hour, pandas_hour, HOUR(ts) AS utc, ts FROM u"
        job.query("own", sql).write(bench.keep("own"))
        finished(job, close=True)
    first = bench.rows("own")[0]
    assert (first["hour"], first["pandas_hour"], first["utc"]) == (9, 9, 0)
    assert first["ts"].astimezone(datetime.UTC) == datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize("kind", [pa.timestamp("us", zone) for zone in (None, "UTC", "Asia/Tokyo")], ids=str)
def test_evaluate_computes_in_utc_whatever_the_zone_of_the_data(kind: pa.DataType) -> None:
    moments = ROWS["ts"] if kind.tz is None else ROWS["ts"].cast(pa.timestamp("us", "UTC")).cast(kind)
    zoned = ROWS.set_column(SCHEMA.get_field_index("ts"), "ts", moments)
    for sql in QUERIES.values():
        found = evaluate(sql, {"t": zoned})
        assert bag(naive(found)) == bag(evaluate(sql, {"t": ROWS}))
        assert {each.tz for each in found.schema.types if pa.types.is_timestamp(each)} <= {kind.tz and "UTC"}


def test_columns_of_several_zones_can_be_compared() -> None:
    moments = ROWS["ts"].cast(pa.timestamp("us", "UTC"))
    table = pa.table({"ts": moments.cast(pa.timestamp("us", "Asia/Tokyo")), "u": moments, "n": ROWS["ts"]})
    sql = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts = A.u AS same, A.ts - A.n AS gap
        PATTERN (A) DEFINE A AS A.ts = A.u AND A.u = A.n)"""
    assert evaluate(sql, {"t": table}).to_pylist() == [{"same": True, "gap": datetime.timedelta()}] * 4


def main(folder: str) -> None:
    """A job and `evaluate` in a process whose machine has another zone, with a session that says nothing of zones."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    bench = Bench(builder.getOrCreate(), pathlib.Path(folder))
    bench.run(ROWS, close=True, **QUERIES)
    answers = {name: [given(bench, name), bag(evaluate(sql, {"t": ROWS}))] for name, sql in QUERIES.items()}
    print(json.dumps({"zone": bench.spark.conf.get("spark.sql.session.timeZone"), "answers": answers}))  # noqa: T201


@pytest.mark.spark  # in a process of its own
def test_the_zone_of_the_machine_changes_nothing(tmp_path: pathlib.Path) -> None:
    here = f"import sys; from tests.spark.test_time_zones import main; main({str(tmp_path)!r})"
    environment = os.environ | {"TZ": "Asia/Tokyo", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ran = subprocess.run([sys.executable, "-c", here], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["zone"] == "Asia/Tokyo"
    for name, sql in QUERIES.items():
        assert found["answers"][name] == [bag(evaluate(sql, {"t": ROWS}))] * 2, name
