"""Engines stay on their executors, and executors come and go with them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.spark.where.assignment import Executor, assign, surplus, wanted
from trimtab.worker.whereabouts import DRIVER, _executor_of_ancestors, this_executor
from trimtab_lab.live.cluster import Cluster

PATIENCE_S = 900


def executors(*slots: int) -> list[Executor]:
    return [Executor(str(number), f"host{number}", each) for number, each in enumerate(slots)]


some_executors = st.lists(st.integers(1, 4), min_size=1, max_size=6).map(lambda slots: executors(*slots))
some_engines = st.integers(1, 40)
some_homes = st.lists(st.integers(0, 9).map(str), max_size=40)


@given(some_engines, some_executors, some_homes, st.integers(0, 99))
def test_every_engine_has_a_live_executor_and_no_executor_more_than_its_share(
    engines: int, live: list[Executor], before: list[str], first: int
) -> None:
    homes = assign(engines, live, before, first=first)
    assert len(homes) == engines
    held = Counter(homes)
    assert set(held) <= {each.id for each in live}
    rounds = math.ceil(engines / sum(each.slots for each in live))
    assert all(held[each.id] <= rounds * each.slots for each in live)


@given(some_engines, some_executors, some_homes, st.integers(0, 99))
def test_nothing_moves_while_nothing_changes(engines: int, live: list[Executor], before: list[str], first: int) -> None:
    homes = assign(engines, live, before, first=first)
    assert assign(engines, live, homes, first=first) == homes


@given(some_executors, st.data())
def test_engines_with_a_slot_each_stay_when_other_executors_come_or_go(
    live: list[Executor], data: st.DataObject
) -> None:
    slots = sum(each.slots for each in live)
    before = assign(data.draw(st.integers(1, slots)), live)
    lost = data.draw(st.sampled_from(live))
    others = [each for each in live if each != lost] + [Executor("new", "host", lost.slots)]
    after = assign(data.draw(st.integers(1, slots)), others, before)
    stay = [(old, new) for old, new in zip(before, after, strict=False) if old != lost.id]
    assert all(old == new for old, new in stay)


def test_streams_with_one_engine_each_begin_with_different_executors() -> None:
    assert [assign(1, executors(1, 1, 1), first=first) for first in range(4)] == [("0",), ("1",), ("2",), ("0",)]


def test_an_executor_that_comes_takes_over_engines_that_had_to_share() -> None:
    crowded = assign(4, executors(2))
    assert crowded == ("0",) * 4
    assert assign(4, executors(2, 2), crowded) == ("0", "0", "1", "1")


@given(some_engines, some_executors)
def test_requested_executors_give_every_engine_a_slot(engines: int, live: list[Executor]) -> None:
    more = wanted(engines, live) - len(live)
    slots = sum(each.slots for each in live)
    size = live[-1].slots
    assert slots + more * size >= engines
    assert more == 0 or slots + (more - 1) * size < engines


@given(some_engines, some_executors, some_homes)
def test_executors_are_released_only_if_every_engine_keeps_a_slot(
    engines: int, live: list[Executor], homes: list[str]
) -> None:
    going = surplus(engines, live, homes)
    left = [each for each in live if each.id not in going]
    assert left
    if going:
        assert sum(each.slots for each in left) >= engines
    spare = sum(each.slots for each in left) - engines
    assert len(left) == 1 or all(each.slots > spare for each in left), "another one could go"


def test_the_executors_of_the_last_engines_go_and_idle_ones_before_them() -> None:
    live = executors(1, 1, 1, 1)
    assert surplus(2, live, homes=("2", "0", "1")) == ("3", "1")
    assert surplus(4, live, homes=("2", "0", "1", "3")) == ()


def test_a_worker_reads_its_executor_from_the_command_line_of_an_ancestor(tmp_path: Path) -> None:
    for pid, parent, words in [
        (9, 8, ["python", "-m", "pyspark.daemon", "pyspark.worker"]),
        (8, 7, ["java", "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--executor-id", "12", "--cores"]),
        (7, 1, ["java", "org.apache.spark.deploy.worker.Worker", "--executor-id", "13"]),
    ]:
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_text("\0".join(words) + "\0")
        (folder / "stat").write_text(f"{pid} (a name) with)) S {parent} 0 0")
    assert _executor_of_ancestors(9, tmp_path) == "12"
    with pytest.raises(OSError, match="cmdline"):
        _executor_of_ancestors(5, tmp_path)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes can't be inspected here")
def test_without_an_executor_it_is_the_driver() -> None:
    assert this_executor() == DRIVER


def test_on_a_cluster_engines_stay_where_they_are_and_executors_come_and_go(cluster: Cluster, tmp_path: Path) -> None:
    """In a process of its own: a process can have only one Spark context."""
    script = Path(__file__).with_name("cluster_job.py")
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *sys.path]
    done = subprocess.run(
        [sys.executable, str(script), cluster.url, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.splitlines()[-1] == "all as it should be"
