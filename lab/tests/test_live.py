"""The live experiments, reduced, on one Spark session; and what their harness computes beside the job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lab.tests.test_experiments import (
    EXPERIMENTS,
    SEED,
    assert_drawn_without_warnings,
    assert_plain,
    assert_verdict,
    run_while_watched,
)
from trimtab.api.evaluate import evaluate
from trimtab.engine.keyed.description import registered
from trimtab.errors import BalanceError
from trimtab_lab.elastic import machines
from trimtab_lab.experiment import Scale, Settings
from trimtab_lab.live import operators, spark
from trimtab_lab.live.key_groups import key_group, salts
from trimtab_lab.madsen_2017 import live_runs, updates
from trimtab_lab.zacheilas_2016 import schemes
from trimtab_lab.zacheilas_2016.feeds import KEY_GROUPS, Order

TOP = "top_articles(TABLE(feed) PARTITION BY bucket"
COLUMNS = ("ts", "bucket", "article")
LIVE = [id_ for id_, experiment in EXPERIMENTS.items() if experiment.live]
IN_THE_SUITE = {"dlb-table1"}
"""Each takes a minute and more, so only this one runs with the suite. All of them do with
`TRIMTAB_LIVE=all pytest lab/tests/test_live.py`."""
CHOSEN = [id_ for id_ in LIVE if id_ in IN_THE_SUITE or os.environ.get("TRIMTAB_LIVE") == "all"]


@pytest.fixture(scope="module", autouse=True)
def _small_session() -> Iterator[None]:
    """No more workers than cores: these take a second each to start. Other tests want their own session, and memory."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spark, "MASTER", "local[2]")
        yield
    spark.close_session()
    machines.close_drivers()


@pytest.mark.live
@pytest.mark.parametrize("id_", CHOSEN)
def test_a_live_experiment_comes_to_its_verdict_and_is_drawn(id_: str) -> None:
    results = run_while_watched(EXPERIMENTS[id_])
    assert_verdict(EXPERIMENTS[id_], results)
    assert_plain(results)
    assert_drawn_without_warnings(EXPERIMENTS[id_], results)


@pytest.mark.live
def test_engines_get_the_tweets_that_the_feed_says() -> None:
    runs = schemes.runs_of((schemes.KG, schemes.PKG, schemes.DLB_L), Order.DEFAULT, Settings(Scale.REDUCED, SEED))
    sent = runs[schemes.KG].sent
    tweets = sent.size.tweets
    pkg = np.array(
        [
            key_group(KEY_GROUPS, int(key), int(salt))
            for key, salt in zip(sent.feed.fingerprints, sent.pkg_salts[len(sent.past) :], strict=True)
        ]
    )
    hashed = np.array([key_group(KEY_GROUPS, int(key)) for key in sent.feed.fingerprints])
    for scheme, groups in ((schemes.KG, hashed), (schemes.PKG, pkg), (schemes.DLB_L, hashed)):
        run = runs[scheme].run
        for batch, got in enumerate(run.events):
            there = run.owners[batch][groups[batch * tweets : (batch + 1) * tweets]]
            assert np.bincount(there, minlength=len(got)).tolist() == got.tolist()


@pytest.mark.live
def test_what_engines_are_to_do_is_what_they_get() -> None:
    run = live_runs.split_run(Scale.REDUCED, SEED).run
    tables = updates.split_updates(Scale.REDUCED, SEED)
    for batch, table in enumerate(tables):
        keys = zip(table.column("bucket").to_pylist(), table.column("salt").to_pylist(), strict=True)
        engines = [key_group(updates.KEY_GROUPS, *key) % updates.ENGINES for key in keys]
        assert np.bincount(engines, minlength=updates.ENGINES).tolist() == run.events[batch].tolist()


@pytest.mark.slow
def test_the_top_articles_of_a_window_are_those_with_the_most_updates() -> None:
    assert registered("top_articles") is operators.TopArticles
    feed = pa.concat_tables(updates.updates(Scale.REDUCED, SEED))
    reported = evaluate(f"SELECT * FROM {TOP} ORDER BY ts, most => 2, window_s => 60)", {"feed": feed}, event_time="ts")
    counted: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for moment, bucket, article in zip(*(feed.column(name).to_pylist() for name in COLUMNS), strict=True):
        counted[bucket, int(moment.timestamp()) // 60 * 60][article] += 1
    last = {bucket: max(window for each, window in counted if each == bucket) for bucket, _ in counted}
    expected = [
        (bucket, window, article, count)
        for (bucket, window), articles in counted.items()
        if window < last[bucket]  # a window is reported when a row after it arrives
        for article, count in sorted(articles.items(), key=lambda each: (-each[1], each[0]))[:2]
    ]
    rows = zip(
        *(reported.column(name).to_pylist() for name in ("bucket", "window_s", "article", "updates")), strict=True
    )
    assert sorted(rows) == sorted(expected)


def test_a_salt_is_the_same_for_the_same_key_and_worker() -> None:
    found = salts(np.array([3, 8, 3, 3]), np.array([1, 1, 1, 0]), groups=32, engines=2)
    assert found[0] == found[2]
    assert [key_group(32, key, int(salt)) % 2 for key, salt in zip((3, 8, 3, 3), found, strict=True)] == [1, 1, 1, 0]


def test_the_catalogue_does_not_import_spark() -> None:
    program = (
        "import sys; from trimtab_lab.catalogue import experiments; experiments(); print('pyspark' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_without_spark_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "_open", [])
    monkeypatch.setitem(sys.modules, "trimtab.spark.session", None)
    with pytest.raises(BalanceError, match=r"lab\.spark") as caught:
        spark.shared_session()
    assert "trimtab[spark]" in str(caught.value)
