"""Two jobs over the same files at once, one whose keys stay where they were hashed to and one that is balanced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from trimtab.cli.demo_scoring import QUERY
from trimtab.cli.job_build import RunningJob
from trimtab.runtime.balance import Balance
from trimtab.runtime.progress import BatchProgress

HASHED, BALANCED = "hashed", "balanced"
NAMES = (HASHED, BALANCED)
ENGINES = 4
KEY_GROUPS = 1024
POLL_S = 0.05


class RaceView(Protocol):
    """Whoever wants to see it."""

    def update(self, batches: Mapping[str, Sequence[BatchProgress]], *, at_once: bool = False) -> None:
        """Take in all batches of each job so far."""
        ...


@dataclass(frozen=True, slots=True)
class Course:
    """What one job did."""

    batches: tuple[BatchProgress, ...]

    @property
    def with_events(self) -> list[BatchProgress]:
        """The batches that had something to do: the end of the input is one that hadn't."""
        return [batch for batch in self.batches if batch.events]

    @property
    def spent_s(self) -> float:
        """How long it took from the end of the first batch on: in that one, Spark starts its workers."""
        batches = self.with_events
        return batches[-1].finished_at_s - batches[0].finished_at_s

    @property
    def events(self) -> int:
        """How many events it took."""
        return sum(batch.events for batch in self.batches)

    @property
    def events_per_s(self) -> float:
        """On average over the whole, behind the first batch."""
        return (self.events - self.with_events[0].events) / max(self.spent_s, 1e-9)

    @property
    def mean_rstd(self) -> float:
        """On average over the batches, in percent."""
        return fmean(batch.rstd for batch in self.with_events)

    @property
    def moved(self) -> int:
        """How many times a key group came to another engine."""
        return sum(batch.moved for batch in self.batches)

    @property
    def rates(self) -> list[float]:
        """Events a second, of each batch with events; what Spark needs between two of them counts."""
        batches = self.with_events
        first = batches[0].events / max(batches[0].batch_ms / 1e3, 1e-9)
        later = [
            after.events / max(after.finished_at_s - before.finished_at_s, 1e-9) for before, after in pairwise(batches)
        ]
        return [first, *later]


def make_job(spark: Any, payments: Path, home: Path, balance: Balance | None, model_us: int) -> Any:
    """The query over the files, one file a batch."""
    from trimtab.runtime.job import Job

    location = str(payments)
    schema = spark.read.parquet(location).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(location)
    job = Job(
        spark, checkpoint=str(home / "checkpoint"), engines=ENGINES, key_groups=KEY_GROUPS, balance=balance, warm=False
    )
    job.stream("payments", rows, event_time="ts")
    job.query("unusual", QUERY.format(model_us=model_us)).write("parquet", path=str(home / "unusual"))
    return job


def run_both(start: Callable[[str], RunningJob], view: RaceView) -> dict[str, Course]:
    """Run both to their ends, and show them while they run. Raises what one of them failed with."""
    running = {name: start(name) for name in NAMES}
    over: set[str] = set()
    while len(over) < len(running):
        for name, run in running.items():
            if name not in over and run.await_termination(POLL_S):
                over.add(name)
        view.update({name: run.history for name, run in running.items()})
    batches = {name: run.history for name, run in running.items()}
    view.update(batches, at_once=True)
    return {name: Course(tuple(history)) for name, history in batches.items()}
