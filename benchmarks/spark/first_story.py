"""First story detection (Zacheilas et al., 2016) on Spark: tweets a second through the whole pipeline.

    python -m benchmarks.spark.first_story [--quick]

For comparison, in the same process and on the same tweets: the operator alone, on one core and without Spark, with
state kept in memory from batch to batch; and the comparison of tweets alone, with all of them in one array.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import trimtab
from benchmarks.report import section
from benchmarks.results import Bar, Cell, Number, Result, Side, Table
from benchmarks.spark.figures import number, rate, trigger
from benchmarks.spark.session import Batch, batches_of, local_session
from trimtab.driver.progress import BatchProgress
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.operator import ARRIVAL, Moment, State
from trimtab_lab.workloads.fingerprints import KEYS
from trimtab_lab.workloads.first_story import FirstStory
from trimtab_lab.workloads.nearest_tweet import nearest_similarities
from trimtab_lab.workloads.tweet_feeds import (
    EVEN,
    SKEWED,
    SPARK_SCHEMA,
    Phase,
    as_table,
    with_every_key,
    write_feed,
    zipf_feed,
)
from trimtab_lab.workloads.tweets import Tweets, TweetStream

STORIES = "SELECT * FROM first_story(TABLE(tweets) PARTITION BY fingerprint ORDER BY ts)"
AT_LEAST_PER_S = 20_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run. `history`: tweets that come before, in six large batches."""

    history: int
    batches: int
    tweets: int
    warm_up: int


FULL = Sizes(history=800_000, batches=6, tweets=50_000, warm_up=2)
QUICK = Sizes(history=20_000, batches=2, tweets=5_000, warm_up=1)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure each feed on Spark and without it."""
    rows: list[tuple[Cell, ...]] = []
    bars: list[Bar] = []
    notes: list[str] = []
    for name, tweets in feeds(sizes).items():
        write_feed(folder / name, tweets.take(np.arange(sizes.history)), max(1, sizes.history // 6))
        write_feed(folder / name, tweets.take(np.arange(sizes.history, len(tweets))), sizes.tweets)
        found, history = on_spark(spark, folder / name, folder / f"{name} checkpoint")
        measured = found[-sizes.batches :]
        own = rate(measured, 0)
        rows.append((name, trigger(measured, 0), own, operator_alone(tweets, sizes), comparing_alone(tweets, sizes)))
        bars.append(Bar(f"first story detection, {name}", own, Side.AT_LEAST, AT_LEAST_PER_S))
        notes.append(f"{name}: {_stages_text(history[-1])}")
    about = (
        f"{sizes.batches} batches of {sizes.tweets:,} tweets each, after {sizes.history:,} that fill the histories of"
        f" {KEYS:,} keys, 500 tweets each at most; 2 engines on `local[2]`."
    )
    columns = ("feed", "a batch", "throughput", "the operator alone, one core", "comparing alone, one core")
    return Result("First stories", about, (Table(columns, tuple(rows)),), tuple(bars), tuple(notes))


def feeds(sizes: Sizes) -> dict[str, Tweets]:
    """The tweets in the order in which they are written, and with Zipf keys."""
    count = sizes.history + (sizes.warm_up + sizes.batches) * sizes.tweets
    written = TweetStream(seed=1).take(count)
    pool = with_every_key(written)
    return {
        "default order": written,
        f"Zipf {EVEN}": zipf_feed(pool, [Phase(EVEN, count)]),
        f"Zipf {SKEWED}": zipf_feed(pool, [Phase(SKEWED, count)]),
    }


def on_spark(spark: SparkSession, folder: Path, checkpoint: Path) -> tuple[tuple[Batch, ...], list[BatchProgress]]:
    """The batches of a job over the files, by Spark's clock and by ours."""
    frame = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2)
    job.stream("tweets", frame, event_time="ts")
    job.query("stories", STORIES).write("parquet", path=str(checkpoint.with_name(f"{checkpoint.name} found")))
    started = job.start(available_now=True)
    started.await_termination()
    return batches_of(started.streaming_queries["tweets"]), list(started.history)


def operator_alone(tweets: Tweets, sizes: Sizes) -> Number:
    """Tweets a second through the operator, batch after batch, without Spark and without files."""
    columns = tuple((name, name) for name in FirstStory.columns)
    query = KeyedQuery("first_story", FirstStory(), ("fingerprint",), (OrderKey("ts"),), columns)
    state: State = {}
    seconds: list[float] = []
    edges = [0, *range(sizes.history, len(tweets) + 1, sizes.tweets)]
    for begin, end in itertools.pairwise(edges):
        table = as_table(tweets.take(np.arange(begin, end)))
        table = table.append_column(ARRIVAL, pa.array(np.arange(end - begin)))
        began = time.perf_counter()
        _, state = query.open().advance(table, state, Moment())
        seconds.append(time.perf_counter() - began)
    return number([sizes.tweets / each for each in seconds[-sizes.batches :]], "tweets/s")


def comparing_alone(tweets: Tweets, sizes: Sizes) -> Number:
    """Tweets a second if all tweets of a key are compared in one call."""
    last = sizes.batches * sizes.tweets
    chosen = tweets.take(np.arange(max(0, len(tweets) - KEYS * 500 - last), len(tweets)))
    by_key = chosen.take(np.argsort(chosen.fingerprints, kind="stable"))
    starts = np.searchsorted(by_key.fingerprints, np.arange(KEYS + 1)).tolist()
    began = time.perf_counter()
    for begin, end in itertools.pairwise(starts):
        of_key = by_key.starts[begin : end + 1]
        terms = by_key.terms[of_key[0] : of_key[-1]].copy()
        nearest_similarities(terms, of_key - of_key[0], 0, FirstStory.history, FirstStory.tau)
    return number([len(chosen) / (time.perf_counter() - began)], "tweets/s")


def _stages_text(batch: BatchProgress) -> str:
    stages = batch.engines[0].stages_ms
    spent = ", ".join(f"{name.replace('_', ' ')} {ms:.0f} ms" for name, ms in stages.items())
    written = batch.state_bytes_written / 1e6
    return f"an engine's time in the last batch: {spent}; {written:.0f} MB of state written by both"


def main() -> None:
    """Print the result."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="few tweets, to see that it runs")
    sizes = QUICK if arguments.parse_args().quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        print(section(run(local_session(), Path(folder), sizes)))


if __name__ == "__main__":
    main()
