"""Jobs whose sinks are exactly once, on Spark: a batch that fails after they took it is there once in the end."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import trimtab
from tests.spark.bench import COLUMNS, Bench, events, finished
from tests.support.broker import Broker
from trimtab.errors import JobError
from trimtab.sources.kafka import Kafka
from trimtab.sources.source import Range


def values(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """What a reader sees that waits for transactions to end, as trimtab's own source does."""
    source = Kafka(broker.servers, topic, value="string")
    ends = source.latest()
    parts = [Range(name, part.start, ends[name]) for name, part in source.partitions().items()]
    texts = [text for part in parts for text in source.read(part).table["value"].to_pylist()]
    return sorted((json.loads(text) for text in texts), key=lambda row: int(row["k"]))


def job_of(bench: Bench, broker: Broker, topic: str, then: Any) -> trimtab.Job:
    job = bench.job()
    query = job.query("columns", COLUMNS)
    query.write("kafka", servers=broker.servers, topic=topic, key="k")
    query.write("delta", path=str(bench.folder / "table")).write(then)
    return job


def test_a_batch_that_fails_after_sinks_took_it_is_there_once(bench: Bench, broker: Broker) -> None:
    topic = broker.make_topic(partitions=3)

    def fail(frame: Any, batch: int) -> None:
        del frame
        raise ConnectionError(f"no line for batch {batch}")

    bench.stream.add(events((1, 0, 10), (2, 1, 20)))
    finished(job_of(bench, broker, topic, bench.keep("columns")))
    bench.stream.add(events((3, 2, 30)))
    with pytest.raises(JobError, match="no line for batch 1"):
        finished(job_of(bench, broker, topic, fail))
    bench.stream.add(events((4, 3, 40)))
    finished(job_of(bench, broker, topic, bench.keep("columns")))
    rows = [{"k": k, "x": 10 * k} for k in (1, 2, 3, 4)]
    assert bench.rows("columns") == rows
    assert values(broker, topic) == rows
    table = DeltaTable(str(bench.folder / "table"))
    assert sum(pa.table(table.get_add_actions())["num_records"].to_pylist()) == 4
