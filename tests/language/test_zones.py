"""Local times: from_utc_timestamp and to_utc_timestamp, with and without zones in the table."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import trimtab

BERLIN = ZoneInfo("Europe/Berlin")
MOMENTS = [dt.datetime(2026, month, day, hour) for month, day, hour in ((1, 1, 12), (3, 29, 0), (3, 29, 1), (7, 1, 23))]
SQL = """SELECT from_utc_timestamp(ts, 'Europe/Berlin') AS there, hour(from_utc_timestamp(ts, 'Europe/Berlin')) AS hour,
    to_utc_timestamp(ts, 'Europe/Berlin') AS here FROM t"""


@pytest.mark.parametrize("beside", [{}, {"at": pa.array([None] * 4, pa.timestamp("us", "UTC"))}])
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_clocks_elsewhere_are_those_of_the_zone(kind: pa.DataType, beside: dict[str, pa.Array]) -> None:
    table = pa.table({"ts": pa.array(MOMENTS, kind)} | beside)
    found = trimtab.evaluate(SQL, {"t": table})
    there = [at.replace(tzinfo=dt.UTC).astimezone(BERLIN).replace(tzinfo=None) for at in MOMENTS]
    here = [at.replace(tzinfo=BERLIN).astimezone(dt.UTC).replace(tzinfo=None) for at in MOMENTS]
    assert found["there"].cast(pa.timestamp("us")).to_pylist() == there
    assert found["hour"].to_pylist() == [at.hour for at in there]
    assert found["here"].cast(pa.timestamp("us")).to_pylist() == here
