"""What will be reported of the batch under way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from trimtab.control.intake import IntakeObserved
from trimtab.driver.reading import Read
from trimtab.worker.free_memory import free_memory_lately
from trimtab.worker.measures import least
from trimtab.worker.orders import EngineReport, Head

NOTHING = Read((), rows=0.0)


@dataclass
class BatchUnderWay:
    """What will be reported of the batch under way."""

    frame: DataFrame
    began_s: float
    read: Read
    waited_s: float = 0.0  # at its begin, for the decision on the batch before
    stages_s: dict[str, float] = field(default_factory=dict)
    reports: Sequence[EngineReport] = ()
    head: Head = field(default_factory=Head)  # also of rows that no query wants
    matches: dict[str, int] = field(default_factory=dict)
    free_memory_share: float | None = None  # the least that was free in the driver
    is_plain: bool = False  # whether engines lacked machine code

    def spent(self, stage: str, seconds: float) -> None:
        """Add time to a stage, a part of which ends now."""
        self.stages_s[stage] = self.stages_s.get(stage, 0.0) + seconds
        self.free_memory_share = least(self.free_memory_share, free_memory_lately())

    @property
    def backlog(self) -> int | None:
        """About how many rows wait behind it; None: that isn't known."""
        return round(self.read.waiting) if self.read.ranges and math.isfinite(self.read.waiting) else None

    def intake(
        self, ended_s: float, ended_at_s: float, slots: Callable[[], Mapping[str, int]]
    ) -> IntakeObserved | None:
        """What its reading tells of the intake; None: nothing. It ended at `ended_s`, by the clock at `ended_at_s`.

        slots   says how many tasks each executor runs at a time; nothing: on this cluster nothing can be shared out to
                them. To ask Spark takes time, so it is only asked if the intake is limited
        """
        if not self.read.ranges or self.read.limit_rows is None:
            return None
        measures = self.head.measures
        shares = [
            self.free_memory_share,
            measures.free_memory_share,
            *(each.free_memory_share for each in self.reports),
        ]
        return IntakeObserved(
            rows=self.head.events,
            bytes=measures.size_bytes or None,
            batch_s=ended_s - self.began_s - self.waited_s,
            limit_rows=self.read.limit_rows,
            latency_s=None if measures.oldest_us is None else max(0.0, ended_at_s - measures.oldest_us / 1e6),
            backlog_rows=self.backlog,
            free_memory_share=least(*shares),
            reading_s={name: _over(measures.reading_s.get(name), count) for name, count in slots().items()},
            is_plain=self.is_plain,
        )


def _over(seconds: float | None, tasks: int) -> float | None:
    return None if seconds is None else seconds / tasks
