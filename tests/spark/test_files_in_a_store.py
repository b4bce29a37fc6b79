"""A job over files in an object store: listed by the driver, read by workers."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest

import trimtab
from tests.spark.bench import COUNTS, Bench, events, finished
from tests.state.s3_server import location, s3_server
from trimtab.driver.who_reads import Reader
from trimtab.spark import reader_choice
from trimtab.state.objects import open_objects


@pytest.mark.servers
def test_a_job_reads_what_is_in_a_store_and_goes_on_with_what_is_added(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_choice, "who_reads", lambda *_: Reader.TASKS)  # workers read all of it
    with s3_server() as port:
        place = location(port, "ticks")
        for name, table in (("a", events((1, 0, 5), (1, 1, 7), (2, 2, 1))), ("b", events((1, 3, 9), (None, 4, 8)))):
            written = io.BytesIO()
            pq.write_table(table, written)
            open_objects(place).write(f"{name}.parquet", written.getvalue())
            job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
            stream = job.stream("t", trimtab.Files(place), event_time="ts")
            stream.quarantine(bench.keep("bad"))
            job.query("counts", COUNTS).write(bench.keep("counts"))
            finished(job, close=name == "b")
    assert sorted((row["k"], row["n"], row["x"]) for row in bench.rows("counts")) == [(1, 3, 21), (2, 1, 1)]
    [bad] = bench.rows("bad")
    assert (bad["x"], bad["source_partition"], bad["source_position"]) == (8, "files", 1)
