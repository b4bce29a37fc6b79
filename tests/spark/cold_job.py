"""A job in a process of its own, started by a test with every cache empty; reports what it did as JSON on stdout.

`python cold_job.py FOLDER`: the stream's files are in FOLDER/t; falls/, counts/ and checkpoint/ are written beside it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

FALLS = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(D.x) AS high, LAST(D.x) AS low
    PATTERN (S D+ U) DEFINE D AS D.x < PREV(D.x), U AS U.x > PREV(U.x))"""
COUNTS = "SELECT k, count(*) AS n, avg(x) AS mean, max(x) AS top FROM t GROUP BY k, window(ts, '60 seconds')"
ENGINES, KEY_GROUPS = 2, 64
PATIENCE_S = 120.0


def main() -> None:
    """Run it to its end."""
    import trimtab
    from tests.support.spark_laws import SETTINGS
    from trimtab.machine_code.compiler import shared_compiler
    from trimtab.spark.session import start_session

    folder = Path(sys.argv[1])
    spark = start_session("cold job", f"local[{ENGINES}]", SETTINGS)
    frame = spark.readStream.schema("k BIGINT, ts TIMESTAMP, x DOUBLE").option("maxFilesPerTrigger", 1)
    balance = trimtab.Balance(measure="events")  # doesn't depend on what else the machine does
    checkpoint = str(folder / "checkpoint")
    job = trimtab.Job(spark, checkpoint=checkpoint, engines=ENGINES, key_groups=KEY_GROUPS, balance=balance)
    job.stream("t", frame.parquet(str(folder / "t")), event_time="ts")
    for name, sql in (("falls", FALLS), ("counts", COUNTS)):
        job.query(name, sql).write("parquet", path=str(folder / name))
    run = job.start(available_now=True, close=True)
    run.await_termination()
    batches = [
        {"moved": batch.moved, "planner": batch.decision.planner if batch.decision else ""} for batch in run.history
    ]
    compiler = shared_compiler("engines")
    deadline = time.monotonic() + PATIENCE_S
    while (
        compiler._waiting and time.monotonic() < deadline
    ):  # on a busy machine the stream may end before the compiler does
        time.sleep(0.1)
    sys.stdout.write(json.dumps({"batches": batches, "compiler_is_broken": compiler.is_broken}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
