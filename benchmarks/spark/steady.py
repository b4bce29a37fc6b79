"""Ticks that come at a steady rate, as a process of its own: to a topic of Kafka, or as small files to a folder.

Each has the moment at which it was appended, by the clock of this machine, and that is its event time, too.

    python -m benchmarks.spark.steady TARGET ROWS_PER_S SECONDS PARTITIONS

TARGET is "kafka:ADDRESS:PORT/TOPIC" or a folder, which gets a file every tenth of a second.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from benchmarks.spark.session import PROJECT

SCHEMA = "symbol BIGINT, ts TIMESTAMP, price DOUBLE, appended BIGINT"
KEYS = 100
PIECE_S = 0.1


def started(target: str, rows_per_s: int, seconds: float, partitions: int) -> subprocess.Popen[bytes]:
    """Start the process."""
    arguments = [target, str(rows_per_s), str(seconds), str(partitions)]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.spark.steady", *arguments], cwd=PROJECT)


def row(symbol: int, price: float) -> bytes:
    """A tick that is appended now.

    >>> len(row(12, 100.25))
    91
    """
    now_us = time.time_ns() // 1_000
    seconds, us = divmod(now_us, 1_000_000)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return b'{"symbol":%d,"ts":"%s.%06dZ","price":%.2f,"appended":%d}' % (symbol, at.encode(), us, price, now_us)


def main() -> None:
    """Write until the time is over."""
    target, rows_per_s, seconds, partitions = sys.argv[1], *map(float, sys.argv[2:])
    rng, count = np.random.default_rng(1), int(rows_per_s * seconds)
    ticks = zip(rng.integers(0, KEYS, count).tolist(), (100 + rng.standard_normal(count)).tolist(), strict=True)
    began_s = time.perf_counter()
    if target.startswith("kafka:"):
        servers, _, topic = target.removeprefix("kafka:").partition("/")
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        for number, tick in enumerate(ticks):
            time.sleep(max(0.0, began_s + number / rows_per_s - time.perf_counter()))
            producer.produce(topic, row(*tick), partition=number % int(partitions))
            producer.poll(0)
        producer.flush(10)
        return
    piece = max(1, int(rows_per_s * PIECE_S))
    for number in range(0, count, piece):
        time.sleep(max(0.0, began_s + (number + piece) / rows_per_s - time.perf_counter()))
        some = [row(*tick) for _, tick in zip(range(piece), ticks, strict=False)]
        hidden = Path(target, f".{number:09}")
        hidden.write_bytes(b"\n".join(some) + b"\n")
        hidden.rename(Path(target, f"{number:09}.json"))


if __name__ == "__main__":
    main()
