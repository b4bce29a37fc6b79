"""Frames whose partitions prefer an executor: the same rows in the same partitions, and Spark knows the preference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import functions

from trimtab.spark.where import pinning
from trimtab.spark.where.assignment import Executor
from trimtab.spark.where.executors import Executors
from trimtab.spark.where.pinning import WAIT, Homes, Pin


@pytest.fixture
def conf(spark: Any) -> Iterator[Any]:
    """The running application's settings, restored after the test."""
    settings = spark.sparkContext._jsc.sc().conf()
    yield settings
    settings.remove(WAIT)


class TwoExecutors:
    """A cluster that no job runs on."""

    is_elastic = False

    def live(self) -> tuple[Executor, ...]:
        return (Executor("0", "a", 1), Executor("1", "b", 1))


def test_a_pinned_frame_has_the_same_partitions_each_with_its_executor(spark: Any, conf: Any) -> None:
    numbers = functions.col("id")
    frame = spark.range(30).repartitionById(3, (numbers % 3).cast("int"))
    pinned = Pin(spark).pinned(frame, ["4", "7", "driver"])
    located = pinned._jdf.queryExecution().toRdd()
    while located.getClass().getSimpleName() != "CoalescedRDD":
        located = located.dependencies().head().rdd()
    partitions = located.partitions()
    preferred = [located.preferredLocations(partition).mkString() for partition in partitions]
    assert preferred == ["executor_any_4", "executor_any_7", "executor_any_driver"]
    rows = pinned.select(numbers, functions.spark_partition_id().alias("at")).collect()
    assert sorted((row.id, row.at) for row in rows) == [(number, number % 3) for number in range(30)]
    assert conf.get(WAIT) == "0s"


@pytest.mark.usefixtures("conf")
def test_the_same_of_an_rdd_that_python_functions_have_made(spark: Any) -> None:
    def numbered(number: int, rows: Iterator[int]) -> Iterator[tuple[int, int]]:
        return ((row, number) for row in rows)

    rows = spark.sparkContext.parallelize(range(6), 2).mapPartitionsWithIndex(numbered)
    homes = Homes(spark, "t")
    homes.executors = TwoExecutors()  # type: ignore[assignment]
    pinned = homes.pinned_rdd(rows, 2)
    located = pinned._jrdd.rdd()
    preferred = [located.preferredLocations(partition).mkString() for partition in located.partitions()]
    assert preferred == [f"executor_any_{home}" for home in homes.of(2)]
    assert pinned.collect() == [(row, row // 3) for row in range(6)]
    assert homes.slots() == {"0": 1, "1": 1}
    placed = homes.placed_rdd(rows, ["1", "0"])
    assert placed.collect() == pinned.collect()
    homes.executors = Executors(spark)
    assert homes.pinned_rdd(rows, 2) is rows, "on one machine there are no executors"
    assert not homes.slots()


def test_a_wait_that_the_user_has_set_is_left_alone(spark: Any, conf: Any) -> None:
    conf.set(WAIT, "2s")
    Pin(spark)
    assert conf.get(WAIT) == "2s"


def test_if_spark_lacks_what_pinning_needs_engines_run_anywhere_with_one_warning(
    spark: Any, conf: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pinning, "_JAVA", pinning._JAVA.replace("PartitionGroup", "PartitionTroupe"))
    homes = Homes(spark, "t")
    homes.executors = TwoExecutors()  # type: ignore[assignment]
    frame = spark.range(2)
    assert homes.of(2) in [("0", "1"), ("1", "0")]
    assert homes.pinned(frame, 2) is frame
    assert homes.pinned(frame, 2) is frame
    assert caplog.text.count("can't be pinned to executors") == 1
    assert not conf.contains(WAIT)


def test_on_one_machine_without_executors_nothing_is_different(spark: Any, conf: Any) -> None:
    homes = Homes(spark, "t")
    assert homes.executors.live() == ()
    assert not homes.executors.is_elastic
    frame = spark.range(2)
    assert homes.pinned(frame, 2) is frame
    homes.fit(5)
    assert not conf.contains(WAIT)
