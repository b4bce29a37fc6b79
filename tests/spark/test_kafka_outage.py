"""A Kafka broker that goes away for a while costs no row and no restart: neither where a job reads nor where it writes.

`TRIMTAB_OUTAGE_S=20 pytest tests/spark/test_kafka_outage.py` has it go away for longer than a test of the suite may.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer

import trimtab
from tests.spark.bench import PATIENCE_S, Bench
from tests.spark.test_exactly_once_sinks import values
from tests.support.broker import Broker
from trimtab.control.intake import Intake
from trimtab.driver import who_reads
from trimtab.spark import kafka_sink

OUTAGE_S = float(os.environ.get("TRIMTAB_OUTAGE_S", "0.5"))
BACKLOG, A_BATCH = 800, 100


def send(broker: Broker, topic: str, numbers: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    for number in numbers:
        row = {"k": number, "ts": f"2026-01-01T00:00:{number % 60:02}Z"}
        producer.produce(topic, json.dumps(row).encode(), partition=number % 2)
    assert producer.flush(60) == 0


def test_a_broker_that_goes_away_costs_no_row_and_no_restart(
    bench: Bench, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once while batches are read and written by tasks, and once while the driver reads and writes them."""
    monkeypatch.setattr(kafka_sink, "SMALL", A_BATCH // 2)
    monkeypatch.setattr(who_reads, "SMALL_ROWS", A_BATCH // 2)
    read, written = broker.make_topic(partitions=2), broker.make_topic(partitions=3)
    send(broker, read, range(BACKLOG))
    intake = Intake(first_rows=A_BATCH, min_rows=A_BATCH, max_rows=A_BATCH)
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False, intake=intake)
    source = trimtab.Kafka(broker.servers, read, schema="k BIGINT, ts TIMESTAMP")
    job.stream("t", source, event_time="ts", delay="1 hour")
    job.query("keys", "SELECT k FROM t").write("kafka", servers=broker.servers, topic=written, key="k", writers=2)
    run = job.start()
    until_s = time.monotonic() + PATIENCE_S + 2 * OUTAGE_S

    def wait_for(events: int) -> None:
        while run.progress.events < events:
            assert time.monotonic() < until_s, f"{run.progress.events} of {events} events"
            assert not run.await_termination(0.05)  # raises what ended it

    def go_away() -> None:
        broker.kill()
        time.sleep(OUTAGE_S)
        broker.start()

    try:
        wait_for(2 * A_BATCH)
        go_away()
        wait_for(BACKLOG)
        send(broker, read, range(BACKLOG, BACKLOG + 20))
        go_away()  # while the job waits for rows, or reads or writes these
        wait_for(BACKLOG + 20)
    finally:
        run.stop()
    run.await_termination()
    assert Counter(row["k"] for row in values(broker, written)) == Counter(range(BACKLOG + 20))
