"""The V-shape in Flink's SQL: a script that `flink.py` runs inside Flink's own virtual environment.

It doesn't import this project. The last line that it prints is its result, as JSON.
"""

from __future__ import annotations

import argparse
import json

# The package has readers for CSV and JSON only. A time as an integer is the fastest to read.
SOURCE = """
CREATE TABLE ticks (
  symbol BIGINT, ms BIGINT, price DOUBLE, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""

NOWHERE = """
CREATE TABLE found (
  symbol BIGINT, top DOUBLE, bottom DOUBLE, back DOUBLE, began BIGINT, ended BIGINT
) WITH ('connector' = 'blackhole')"""

FILES = """
CREATE TABLE found (
  symbol BIGINT, top DOUBLE, bottom DOUBLE, back DOUBLE, began BIGINT, ended BIGINT
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""

# Flink has no PREV: the row before is the last one of D, or S.
V_SHAPE = """
INSERT INTO found SELECT symbol, top, bottom, back, began, ended FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES S.price AS top, LAST(D.price) AS bottom, U.price AS back, S.ms AS began, U.ms AS ended
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (S D+ U)
  DEFINE D AS D.price < LAST(D.price, 1) OR (LAST(D.price, 1) IS NULL AND D.price < S.price),
         U AS U.price > LAST(D.price)
)"""


def main() -> None:
    """Run the query repeatedly, and print how long each run took by Flink's own clock."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", required=True, help="one CSV file in order of time: symbol, milliseconds, price")
    parser.add_argument("--found", help="a folder for the matches; without it they go nowhere")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--parallelism", type=int, default=2)
    options = parser.parse_args()
    # Imported here, so that this module can be imported without Flink.
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found, unused-ignore]

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {"parallelism.default": str(options.parallelism), "pipeline.object-reuse": "true"}
    if options.found:
        settings["execution.checkpointing.interval"] = "2 s"  # files are finished by checkpoints
    for name, value in settings.items():
        environment.get_config().set(name, value)
    environment.execute_sql(SOURCE.format(path=options.ticks))
    environment.execute_sql(FILES.format(path=options.found) if options.found else NOWHERE)
    seconds = []
    for _ in range(options.runs):
        client = environment.execute_sql(V_SHAPE).get_job_client()
        result = client.get_job_execution_result().result()
        seconds.append(result.get_net_runtime() / 1000)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
