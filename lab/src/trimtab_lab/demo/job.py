"""The job of the demonstration, and the changes that are made while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trimtab.driver.progress import BatchProgress
from trimtab_lab.demo.queries import QUERIES
from trimtab_lab.demo.stream import DELAY_S, DemoFolders
from trimtab_lab.demo.view import DemoView

KEY_GROUPS = 1024
POLL_S = 0.02
FIRST_ENGINES = 2


@dataclass(frozen=True, slots=True)
class Move:
    """Half of an engine's key groups, chosen at random, move to another engine."""

    engine: int
    to: int

    def __str__(self) -> str:
        """The text of the view."""
        return f"half of engine {self.engine}'s key groups move to engine {self.to}"


@dataclass(frozen=True, slots=True)
class Resize:
    """The job goes on with another number of engines."""

    engines: int

    def __str__(self) -> str:
        """The text of the view."""
        return f"from now on {self.engines} engines"


@dataclass(frozen=True, slots=True)
class Restart:
    """The job is stopped, and a new one started from its checkpoint."""

    def __str__(self) -> str:
        """The text of the view."""
        return "the job is stopped, and started again from its checkpoint"


Change = Move | Resize | Restart
CHANGES: tuple[Change, ...] = (Move(0, 1), Resize(4), Move(3, 1), Restart(), Resize(3))
"""In this order, spread evenly over the batches."""


def schedule(files: int) -> list[tuple[int, Change]]:
    """After which batch each change is made.

    >>> [batch for batch, _ in schedule(20)]
    [2, 6, 9, 12, 16]
    """
    step = files / (len(CHANGES) + 1)
    return [(round(step * (number + 1)) - 1, change) for number, change in enumerate(CHANGES)]


@dataclass(slots=True)
class Story:
    """What happened: all batches, and the batch after which each change was made."""

    batches: list[BatchProgress] = field(default_factory=list)
    changes: list[tuple[int, Change]] = field(default_factory=list)

    @property
    def moved(self) -> int:
        """How many times a key group moved to another engine."""
        return sum(batch.moved for batch in self.batches)


def make_job(spark: Any, folders: DemoFolders, engines: int | None, *, warm: bool) -> Any:
    """Both queries over the files, one file per batch."""
    from trimtab.api.job import Job

    location = str(folders.ticks)
    schema = spark.read.parquet(location).schema
    ticks = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(location)
    # Without balancing: only the changes made by hand are shown.
    job = Job(
        spark, checkpoint=str(folders.checkpoint), engines=engines, key_groups=KEY_GROUPS, balance=None, warm=warm
    )
    job.stream("ticks", ticks, event_time="ts", delay=f"{DELAY_S} seconds")
    for name, sql in QUERIES.items():
        job.query(name, sql).write("parquet", path=str(folders.found(name)))
    return job


def run_job(
    start: Callable[[int | None], Any], changes: Sequence[tuple[int, Change]], view: DemoView, *, seed: int = 7
) -> Story:
    """Run the job to its end, making each change as soon as its batch is committed.

    `start` starts it on a number of engines; None: on as many as its checkpoint has.
    """
    story, waiting = Story(), list(changes)
    rng = np.random.default_rng(seed)
    run = start(FIRST_ENGINES)
    is_over = False
    while not is_over:
        is_over = run.await_termination(POLL_S)
        history = [*story.batches, *run.history]
        view.update(run.progress, history)
        last = history[-1].batch if history else -1
        if is_over or not waiting or last < waiting[0][0]:
            continue
        change = waiting.pop(0)[1]
        view.announce(f"after batch {last}: {change}")
        if isinstance(change, Restart):
            run.stop()
            run.await_termination()
            story.batches += run.history
            view.end_run(run.progress, story.batches)
            story.changes.append((story.batches[-1].batch, change))  # the running batch was finished first
            run = start(None)
            continue
        _make(run, change, rng)
        story.changes.append((last, change))
    story.batches += run.history
    view.end_run(run.progress, story.batches)
    return story


def _make(run: Any, change: Move | Resize, rng: np.random.Generator) -> None:
    match change:
        case Resize(engines):
            run.resize(engines)
        case Move(engine, to):
            groups = np.flatnonzero(run.placement["ticks"].array() == engine)
            run.move({int(group): to for group in rng.choice(groups, len(groups) // 2, replace=False)})
