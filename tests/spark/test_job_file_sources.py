"""A job file whose streams trimtab reads itself, built and run on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trimtab
from trimtab.cli.batch_lines import batch_line, summary
from trimtab.cli.job_build import make_job, start
from trimtab.cli.job_file import read_job_file
from trimtab.sources.source import Range

PATIENCE_S = 180.0
JOB = """\
[job]
checkpoint = "checkpoint"
engines = 2
key_groups = 8
balance = "none"
available_now = true
close = true

[job.intake]
batch_s = 5
min_rows = 10
max_rows = 400
first_rows = 200

[streams.made_up]
source = "rate"
rows = 1000
partitions = 2
keys = 5
event_time = "ts"

[streams.lines]
source = "files"
path = "lines/"
format = "json"
schema = "k BIGINT, ts TIMESTAMP"
event_time = "ts"

[streams.lines.quarantine]
format = "parquet"
path = "undecoded/"

[queries.counts]
sql = "SELECT k, COUNT(*) AS n FROM made_up GROUP BY k, window(ts, '1 hour')"

[[queries.counts.sinks]]
format = "parquet"
path = "counts/"

[queries.keys]
sql = "SELECT reverse(CAST(k AS STRING)) AS key FROM lines"

[[queries.keys.sinks]]
format = "parquet"
path = "keys/"
"""


def test_a_job_file_with_sources_of_trimtabs_own_runs(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lines").mkdir()
    lines = ['{"k": 1, "ts": "2026-01-01T00:00:00Z"}', "no json", '{"k": 2, "ts": "2026-01-01T00:00:01Z"}']
    (tmp_path / "lines" / "a.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "job.toml").write_text(JOB.replace('format = "json"', 'format = "json"\nsettled_after_s = 0'))
    file = read_job_file(tmp_path / "job.toml")
    running = start(file, spark, make_job)
    assert running.await_termination(PATIENCE_S)
    told = [each.getMessage() for each in caplog.records if "through the JVM" in each.getMessage()]
    assert [line.partition(":")[0] for line in told] == [
        "all rows of stream lines go through the JVM, which takes longer than over columns, because of query keys"
    ]

    rate = trimtab.Rate(None, rows=1000, partitions=2, keys=5)
    rows = pa.concat_tables([rate.read(Range(part, 0, 500)).table for part in ("0", "1")]).group_by("k")
    expected = {row["k"]: row["k_count"] for row in rows.aggregate([("k", "count")]).to_pylist()}
    assert {row["k"]: row["n"] for row in pq.read_table(tmp_path / "counts").to_pylist()} == expected
    assert sorted(pq.read_table(tmp_path / "keys")["key"].to_pylist()) == ["1", "2"]
    (bad,) = pq.read_table(tmp_path / "undecoded").to_pylist()
    assert (bad["source_partition"], bad["source_position"], bad["source_value"]) == ("files", 0, b"no json")

    made_up = [batch for batch in running.history if batch.stream == "made_up" and batch.events]
    assert len(made_up) > 2
    assert made_up[0].events == 200, "the file's first_rows"
    assert any("rows wait" in batch_line(batch) for batch in made_up)
    assert any("; intake up to" in batch_line(batch) for batch in made_up)
    assert "quarantined: 1 event -> parquet" in summary(running.progress, file, 1.0)
