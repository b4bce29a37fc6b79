"""Two executors share a stream, each on a core of its own, and for a while CPU hogs run on the core of one of them.

    python -m trimtab_lab.live.two_elements '{"before_s": 20, "hog_s": 40, "seed": 1}'

prints the batches of two runs as a line of JSON: with key groups dealt out evenly, and with key groups that move. It is
a process of its own because a process has one Spark context.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import trimtab
from trimtab.spark.session import start_session
from trimtab_lab.live.cluster import Cluster
from trimtab_lab.live.density import density
from trimtab_lab.live.hog import hog
from trimtab_lab.live.intake_run import KEYS, PARTITIONS, QUERY
from trimtab_lab.live.processes import Process
from trimtab_lab.live.scratch import scratch_folder

EVEN, BALANCED = "round robin", "balanced"
SAMPLES, KEY_GROUPS = 200, 64
LOAD, HOGS = 0.35, 3
"""The share of a core that each element's rows take, and how many hogs share its core: it is left a quarter."""

OTHER_WORK_S = 1.5e-6
"""What a row costs beside its estimate of density: reading, splitting, sorting."""

WARM_S = 15.0
POLL_S = 0.05
CONF = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How long a run lasts before hogs come, and how long they stay; it ends with them."""

    before_s: float
    hog_s: float
    seed: int = 1


@dataclass(frozen=True, slots=True)
class SplitBatch:
    """A batch: when it ended, how old its oldest row was then, and what the element with the hogs had of its rows."""

    ended_s: float
    delay_s: float
    batch_s: float
    rows: int
    slow_share: float
    moved: int


def main(text: str) -> None:
    """Run both, and print what they took."""
    plan = SplitPlan(**json.loads(text))
    with Cluster(workers=2, cores=1) as cluster:
        spark = start_session("trimtab lab", cluster.url, {**CONF, **cluster.settings})
        slow = _on_own_cores(spark, cluster)
        rows_per_s = 2 * LOAD / (_row_s() + OTHER_WORK_S)
        _run(spark, None, SplitPlan(WARM_S, 0.0), slow, rows_per_s)  # first batches compile, and start workers
        policies = {EVEN: None, BALANCED: trimtab.Balance()}
        found: dict[str, Any] = {name: _run(spark, each, plan, slow, rows_per_s) for name, each in policies.items()}
        sys.stdout.write(json.dumps({"rows_per_s": rows_per_s, "runs": found}) + "\n")
        sys.stdout.flush()
        spark.stop()


def _run(
    spark: Any, balance: trimtab.Balance | None, plan: SplitPlan, slow: str, rows_per_s: float
) -> list[dict[str, Any]]:
    folder = scratch_folder()
    source = trimtab.Rate(rows_per_s, partitions=PARTITIONS, keys=KEYS, seed=plan.seed)
    job = trimtab.Job(spark, checkpoint=str(folder / "checkpoint"), engines=2, key_groups=KEY_GROUPS, balance=balance)
    job.stream("feed", source, event_time="ts", max_ahead=None)
    job.query("unusual", QUERY.format(samples=SAMPLES)).write("parquet", path=str(folder / "unusual"))
    run = job.start()
    began_s = time.time()
    try:
        _wait_until(run, began_s + plan.before_s)
        with _hogs():
            _wait_until(run, began_s + plan.before_s + plan.hog_s)
    finally:
        run.stop()
    run.await_termination(60.0)
    return [asdict(each) for each in _batches(run, slow, began_s)]


def _wait_until(run: Any, at_s: float) -> None:
    while run.is_active and time.time() < at_s:
        time.sleep(POLL_S)


def _batches(run: Any, slow: str, began_s: float) -> Iterator[SplitBatch]:
    for batch in run.history:
        if batch.events and batch.intake is not None and batch.intake.latency_s is not None:
            slow_rows = sum(engine.events for engine in batch.engines if engine.executor == slow)
            yield SplitBatch(
                ended_s=batch.finished_at_s - began_s,
                delay_s=batch.intake.latency_s,
                batch_s=batch.intake.batch_s,
                rows=batch.events,
                slow_share=slow_rows / max(1, sum(engine.events for engine in batch.engines)),
                moved=batch.moved,
            )


@contextmanager
def _hogs() -> Iterator[None]:
    with ExitStack() as all_:
        for _ in range(HOGS):
            _pin(all_.enter_context(hog()), _cores()[0])
        yield


def _on_own_cores(spark: Any, cluster: Cluster) -> str:
    """Let each executor use one core only, with the workers that it will start; return the id of the first one."""
    spark.sparkContext.parallelize([0], 1).count()  # now they are there
    executors = sorted(cluster.executors(), key=_id_of)
    for executor, core in zip(executors, _cores(), strict=False):
        _pin(executor.pid, core)
    return _id_of(executors[0])


def _id_of(executor: Process) -> str:
    words = executor.command.split()
    return words[words.index("--executor-id") + 1]


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))[:2]


def _pin(pid: int, core: int) -> None:
    """Let all threads of a process use one core; threads and processes that it starts later inherit that."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


def _row_s() -> float:
    """What the density of a row takes here."""
    values = np.random.default_rng(1).random(50_000)
    began_s = time.perf_counter()
    density(values, SAMPLES)
    return (time.perf_counter() - began_s) / len(values)


if __name__ == "__main__":
    main(sys.argv[1])
