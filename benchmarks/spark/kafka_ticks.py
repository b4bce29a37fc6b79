"""Seeded ticks as JSON in a topic of Kafka, each about a hundred bytes; every partition is in order of time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from benchmarks.spark.ticks import APART_US, OPENING, zipf_symbols

SCHEMA = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"
CHUNK = 100_000
_PATIENCE_S = 60.0


def values(messages: int, keys: int, *, seed: int = 1) -> Iterator[list[bytes]]:
    """The messages' values, a chunk at a time: tick after tick, `APART_US` apart.

    >>> [[only]] = values(1, 10)
    >>> len(only), only[:46]
    (98, b'{"symbol":8,"ts":"2026-01-05T09:30:00.000000Z"')
    """
    rng = np.random.default_rng(seed)
    draw, level = zipf_symbols(keys, 1.0), 100.0
    for first in range(0, messages, CHUNK):
        rows = min(CHUNK, messages - first)
        walk = level + np.cumsum(rng.standard_normal(rows)) * 0.01
        level = float(walk[-1])
        times_us = round(OPENING.timestamp() * 1_000_000) + np.arange(first, first + rows) * APART_US
        texts = (
            '{"symbol":',
            pa.array(draw(rows, rng)).cast(pa.string()),
            ',"ts":"',
            pc.strftime(pa.array(times_us, pa.timestamp("us")), "%Y-%m-%dT%H:%M:%SZ"),
            '","price":',
            pa.array(np.round(walk + rng.standard_normal(rows), 2)).cast(pa.string()),
            ',"venue":"XNAS.OMX","volume":',
            pa.array(rng.integers(1_000_000, 10_000_000, rows)).cast(pa.string()),
            "}",
        )
        yield pc.binary_join_element_wise(*texts, "").cast(pa.binary()).to_pylist()


def write_ticks(servers: str, topic: str, messages: int, partitions: int, keys: int, *, seed: int = 1) -> float:
    """Write ticks, the partitions in turn; return how many seconds it took."""
    began_s = time.perf_counter()
    settings = {"linger.ms": 20, "batch.num.messages": 10_000, "queue.buffering.max.messages": 1_000_000}
    producers = [Producer({"bootstrap.servers": servers, **settings}) for _ in range(partitions)]
    for chunk in values(messages, keys, seed=seed):
        for number, producer in enumerate(producers):
            for value in chunk[number::partitions]:
                _send(producer, topic, value, number)
    for producer in producers:
        assert producer.flush(_PATIENCE_S) == 0, "the broker doesn't take the ticks"
    return time.perf_counter() - began_s


def _send(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:  # more than it may hold wait for the broker
            producer.poll(0.1)
        else:
            return
