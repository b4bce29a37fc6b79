"""What will be reported of the batch under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from trimtab.worker.orders import EngineReport, Head


@dataclass
class BatchUnderWay:
    """What will be reported of the batch under way."""

    frame: DataFrame
    began_s: float
    stages_s: dict[str, float] = field(default_factory=dict)
    reports: Sequence[EngineReport] = ()
    head: Head = field(default_factory=Head)  # also of rows that no query wants
    matches: dict[str, int] = field(default_factory=dict)

    def spent(self, stage: str, seconds: float) -> None:
        """Add time to a stage."""
        self.stages_s[stage] = self.stages_s.get(stage, 0.0) + seconds
