"""First story detection on Spark: synthetic tweets arrive as files, and those unlike all earlier ones are reported.

    python examples/first_story.py [FOLDER]

Without a folder for tweets, state and answers, a temporary one is used.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
from typing import Any

import trimtab
import trimtab_lab.workloads.first_story  # noqa: F401 - defines the operator that the query calls
from trimtab_lab.workloads.tweet_feeds import SPARK_SCHEMA, write_feed
from trimtab_lab.workloads.tweets import TweetStream

SQL = """
    SELECT fingerprint, id, similarity, compared
    FROM first_story(TABLE(tweets) PARTITION BY fingerprint ORDER BY ts, history => 500, tau => 0.2)
    WHERE compared >= 20  -- among fewer tweets of a key, everything is new
"""


def run(spark: Any, folder: pathlib.Path, tweets: int = 100_000, batches: int = 10) -> None:
    """Write the tweets, find the first stories, and show some."""
    write_feed(folder / "tweets", TweetStream(seed=1).take(tweets), -(-tweets // batches), text=True)
    schema = f"{SPARK_SCHEMA}, text STRING"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "tweets"))

    job = trimtab.Job(spark, checkpoint=str(folder / "checkpoint"), engines=2)
    job.stream("tweets", stream, event_time="ts")
    job.query("stories", SQL).write("parquet", path=str(folder / "stories"))
    progress = job.start(available_now=True)
    while not progress.await_termination(1.0):
        print(f"{progress.progress.events:,} tweets, {progress.progress.events_per_s:,.0f} a second")

    found = spark.read.parquet(str(folder / "stories"))
    print(f"{found.count():,} first stories among {progress.progress.events:,} tweets; the last ones:")
    texts = spark.read.schema(schema).parquet(str(folder / "tweets")).select("id", "text")
    found.join(texts, "id").orderBy("id", ascending=False).show(10, truncate=False)


def main() -> None:
    """Run it on a local Spark."""
    from trimtab.spark.session import start_session

    spark = start_session("first stories", "local[2]", {"spark.ui.enabled": "false"})
    if len(sys.argv) > 1:
        run(spark, pathlib.Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(spark, pathlib.Path(folder))


if __name__ == "__main__":
    main()
