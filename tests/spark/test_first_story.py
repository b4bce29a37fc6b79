"""The example finds the same first stories on Spark as the query without Spark, and prints them."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pyarrow.parquet as pq
import pytest

import trimtab
from trimtab_lab.workloads.tweet_feeds import as_table
from trimtab_lab.workloads.tweets import TweetStream

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "first_story.py"


def test_the_example_finds_on_executors_what_is_found_without_spark(
    spark: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("first_story_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.run(spark, tmp_path, tweets=8_000, batches=3)
    found = pq.read_table(tmp_path / "stories").select(["fingerprint", "id", "similarity", "compared"])
    tweets = as_table(TweetStream(seed=1).take(8_000))
    # The last tweet stays undecided until a later one comes: an earlier one could still be missing.
    expected = trimtab.evaluate(example.SQL, {"tweets": tweets.slice(0, 7_999)})
    assert found.num_rows > 0
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert f"{found.num_rows:,} first stories among 8,000 tweets" in capsys.readouterr().out
