"""A job that reads a backlog while more arrives than it can take, and a CPU hog runs for a while; its batches measured.

More arrives than is read, as in section 4 of Xu (2005): what isn't let in waits in the source.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.errors import BalanceError
from trimtab_lab.live import density  # noqa: F401 - registers the operator
from trimtab_lab.live.hog import hog
from trimtab_lab.live.memory_watch import MemoryWatch, Used
from trimtab_lab.live.scratch import scratch_folder
from trimtab_lab.live.spark import shared_session

if TYPE_CHECKING:  # both import Spark
    from trimtab.api.run import Run
    from trimtab.control.intake import Intake
    from trimtab.driver.progress import BatchProgress

MASTER, ENGINES, PARTITIONS, KEYS = "local[2]", 2, 4, 64
PATIENCE_S = 300.0
POLL_S = 0.02
QUERY = "SELECT k, n, density FROM unusual_values(TABLE(feed) PARTITION BY k ORDER BY ts, samples => {samples})"


@dataclass(frozen=True, slots=True)
class IntakePlan:
    """What is run.

    intake      how many rows batches may take; None: all that wait, and then nothing more arrives
    waiting     rows that wait at first
    rows_per_s  rows that arrive each second after that
    samples     what a row costs: this many exponentials
    before      batches before the hog begins; with `hog_s` of 0 these are all
    hog_s       how long it runs
    after       batches after it has ended
    """

    intake: Intake | None
    waiting: int
    rows_per_s: float = 0.0
    samples: int = 500
    before: int = 30
    hog_s: float = 0.0
    after: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A batch. `ended_s` is counted from the begin of the first one; `hogged`: it ended while the hog ran."""

    ended_s: float
    rows: int
    batch_s: float
    limit: int | None
    backlog: int | None
    latency_s: float | None
    free_memory_share: float | None
    used: Used
    hogged: bool


class HeadStart:
    """A clock that says once that it is earlier: what arrives at a steady rate has been arriving since then."""

    def __init__(self, ago_s: float) -> None:
        self._ago_s = ago_s

    def __call__(self) -> float:
        """The seconds since 1970."""
        ago_s, self._ago_s = self._ago_s, 0.0
        return time.time() - ago_s


def run_intake_job(plan: IntakePlan, seed: int, heard: Callable[[int], None] = lambda _: None) -> list[Measured]:
    """Run the job until the plan is over; `heard` is called with the number of batches so far."""
    import trimtab

    folder = scratch_folder()
    if plan.intake is None:
        source = trimtab.Rate(None, rows=plan.waiting, partitions=PARTITIONS, keys=KEYS, seed=seed)
    else:
        clock = HeadStart(plan.waiting / plan.rows_per_s)
        source = trimtab.Rate(plan.rows_per_s, partitions=PARTITIONS, keys=KEYS, seed=seed, clock=clock)
    job = trimtab.Job(
        shared_session(MASTER), checkpoint=str(folder / "checkpoint"), engines=ENGINES, balance=None, intake=plan.intake
    )
    job.stream("feed", source, event_time="ts", max_ahead=None)
    job.query("unusual", QUERY.format(samples=plan.samples)).write("parquet", path=str(folder / "unusual"))
    with MemoryWatch() as memory, ExitStack() as under_hog:
        run = job.start(available_now=plan.intake is None)
        watch = _Watch(plan, run, memory, under_hog, heard)
        try:
            watch.until_over()
        finally:
            under_hog.close()
            run.stop()
    run.await_termination(PATIENCE_S)
    return watch.measured


class _Watch:
    """Looks at a run: notes its batches, and lets the hog come and go."""

    def __init__(
        self, plan: IntakePlan, run: Run, memory: MemoryWatch, under_hog: ExitStack, heard: Callable[[int], None]
    ) -> None:
        self._plan, self._run, self._memory, self._under_hog, self._heard = plan, run, memory, under_hog, heard
        self._began_s: float | None = None  # by the clock, as all times here
        self._hog_s: tuple[float, float] | None = None
        self.measured: list[Measured] = []

    def until_over(self) -> None:
        """Wait until the plan is over."""
        until = time.monotonic() + PATIENCE_S
        while self._run.is_active and not self._is_over():
            if time.monotonic() > until:
                raise BalanceError("lab.spark", f"a run didn't end within {PATIENCE_S:.0f} s", "look at its load")
            self._note()
            self._let_hog()
            time.sleep(POLL_S)
        self._run.await_termination(0.0) if not self._run.is_active else None
        self._note()

    def _note(self) -> None:
        batches = [each for each in self._run.history if each.events]
        for each in batches[len(self.measured) :]:
            if self._began_s is None:
                self._began_s = each.finished_at_s - each.batch_ms / 1e3
            self.measured.append(self._measured(each, each.finished_at_s - self._began_s))
            self._heard(len(self.measured))

    def _measured(self, batch: BatchProgress, ended_s: float) -> Measured:
        seen: Any = batch.intake
        start, end = self._hog_s or (float("inf"), float("inf"))
        return Measured(
            ended_s=ended_s,
            rows=batch.events,
            batch_s=batch.batch_ms / 1e3 if seen is None else seen.batch_s,
            limit=None if seen is None else seen.limit_rows,
            backlog=batch.backlog,
            latency_s=None if seen is None else seen.latency_s,
            free_memory_share=None if seen is None else seen.free_memory_share,
            used=self._memory.now,
            hogged=start <= batch.finished_at_s <= end,
        )

    def _let_hog(self) -> None:
        plan = self._plan
        if plan.hog_s and self._hog_s is None and len(self.measured) >= plan.before:
            self._under_hog.enter_context(hog())
            self._hog_s = (time.time(), time.time() + plan.hog_s)
        elif self._hog_s is not None and time.time() > self._hog_s[1]:
            self._under_hog.close()

    def _is_over(self) -> bool:
        plan, count = self._plan, len(self.measured)
        if plan.intake is None:
            return False  # the job ends by itself
        if self._hog_s is None:
            return count >= plan.before and not plan.hog_s
        ended = [each for each in self.measured if self._began_s + each.ended_s > self._hog_s[1]]  # type: ignore[operator]
        return len(ended) >= plan.after and time.time() > self._hog_s[1]
