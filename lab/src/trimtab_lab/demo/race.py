"""One stream, two jobs: in one of them keys stay where their hash puts them, the other one is balanced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from trimtab.cli.job_build import RunningJob
from trimtab.deciding.policy import DEFAULT, Balance
from trimtab.driver.progress import BatchProgress
from trimtab_lab.demo.scoring import scoring_sql
from trimtab_lab.demo.seed import KEY_GROUPS

HASHED, BALANCED = "hashed", "balanced"
NAMES = (HASHED, BALANCED)
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Race:
    """What is run: a stream of `rows` payments in `files` batches, on `engines` engines.

    A model scores each event: by `wait_us` microseconds of waiting, or by the work of `layers` layers. Jobs that wait
    run at the same time, as they don't need the cores. Jobs that compute run one after the other. `balance`: the policy
    of the balanced one.
    """

    name: str
    engines: int
    rows: int
    files: int
    wait_us: int = 0
    layers: int = 0
    balance: Balance = DEFAULT

    @property
    def is_waiting(self) -> bool:
        """Whether its work is simulated."""
        return self.wait_us > 0

    @property
    def turns(self) -> tuple[tuple[str, ...], ...]:
        """Which jobs run at the same time, in the order in which they run."""
        return (NAMES,) if self.is_waiting else tuple((name,) for name in NAMES)

    @property
    def title(self) -> str:
        """The heading."""
        return f"{self.engines} engines, {'work simulated by waiting' if self.is_waiting else 'real work'}"

    @property
    def introduction(self) -> str:
        """What is about to be run."""
        how = (
            f"each event waits {self.wait_us:,} us for a model that isn't there. Both jobs run at once."
            if self.is_waiting
            else f"each event is scored by a network of {self.layers} layers. One job runs after the other."
        )
        measure = self.balance.measured.value
        return f"{self.title}: {self.rows:,} events in {self.files} batches, balanced by {measure};\n{how}"

    @property
    def sql(self) -> str:
        """The query of both jobs."""
        return scoring_sql(wait_us=self.wait_us, layers=self.layers)

    @property
    def sql_in_one_pass(self) -> str:
        """The query for one pass over all rows, without waiting, which changes no answer."""
        return scoring_sql(layers=self.layers)


@dataclass(frozen=True, slots=True)
class Course:
    """The batches of one job that have events: the end of the input is a batch without."""

    batches: tuple[BatchProgress, ...]

    @classmethod
    def of(cls, history: Sequence[BatchProgress]) -> Course:
        """Of all batches of a job."""
        return cls(tuple(batch for batch in history if batch.events))

    @property
    def spent_s(self) -> float:
        """Seconds from the commit of the first batch, in which Spark starts its workers, to that of the last."""
        return self.batches[-1].finished_at_s - self.batches[0].finished_at_s

    @property
    def spark_share(self) -> float:
        """The share of that time, in percent, in which the slowest engine didn't work on events."""
        worked_s = sum(slowest_ms(batch) for batch in self.batches[1:]) / 1e3
        return 100.0 * (1.0 - worked_s / self.spent_s) if self.spent_s else 0.0

    @property
    def mean_rstd(self) -> float:
        """The mean RSTD of all batches, in percent."""
        return fmean(batch.rstd for batch in self.batches)

    @property
    def moved(self) -> int:
        """How many times a key group moved to another engine."""
        return sum(batch.moved for batch in self.batches)

    @property
    def rates(self) -> list[float]:
        """Events a second of each batch, from commit to commit, with Spark's part of the time."""
        first = self.batches[0].events / max(self.batches[0].batch_ms / 1e3, 1e-9)
        return [first, *(b.events / max(b.finished_at_s - a.finished_at_s, 1e-9) for a, b in pairwise(self.batches))]


def slowest_ms(batch: BatchProgress) -> float:
    """How long the slowest engine worked on its events: the others wait for it."""
    return max(engine.worked_ms for engine in batch.engines)


def worked_ms(batch: BatchProgress) -> float:
    """How long all engines together worked on their events."""
    return sum(engine.worked_ms for engine in batch.engines)


def make_job(spark: Any, race: Race, name: str, payments: Path, home: Path) -> Any:
    """The query over the files, one file per batch."""
    from trimtab.api.job import Job

    location, checkpoint = str(payments), str(home / "checkpoint")
    balance = race.balance if name == BALANCED else None
    schema = spark.read.parquet(location).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(location)
    job = Job(spark, checkpoint=checkpoint, engines=race.engines, key_groups=KEY_GROUPS, balance=balance, warm=False)
    job.stream("payments", rows, event_time="ts")
    job.query("unusual", race.sql).write("parquet", path=str(home / "unusual"))
    return job


class RaceView(Protocol):
    """Shows the jobs while they run."""

    def update(self, batches: Mapping[str, Sequence[BatchProgress]], *, at_once: bool = False) -> None:
        """Show all batches so far of each started job."""
        ...


def run_race(start: Callable[[str], RunningJob], turns: Sequence[Sequence[str]], view: RaceView) -> dict[str, Course]:
    """Run the jobs of each turn to their ends, turn after turn. Raises the error of a job that fails."""
    started: dict[str, RunningJob] = {}

    def histories() -> dict[str, Sequence[BatchProgress]]:
        return {name: run.history for name, run in started.items()}

    for turn in turns:
        started |= {name: start(name) for name in turn}
        running = set(turn)
        while running:
            running -= {name for name in running if started[name].await_termination(POLL_S)}
            view.update(histories())
    view.update(histories(), at_once=True)
    return {name: Course.of(history) for name, history in histories().items()}
