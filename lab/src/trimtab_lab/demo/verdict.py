"""The result of each race, in words and figures, for the terminal and the picture. It claims only what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab_lab.demo.race import BALANCED, HASHED, Course, Race, slowest_ms, worked_ms

FASTER = 1.05
"""Below this ratio of times, balanced isn't called faster."""


@dataclass(frozen=True, slots=True)
class WaitingVerdict:
    """The race of engines whose work is simulated: how long both jobs took by wall clock."""

    race: Race
    courses: Mapping[str, Course]

    @property
    def times_as_fast(self) -> float:
        """The hashed job's time over the balanced one's, both from the commit of the first batch on."""
        return self.courses[HASHED].spent_s / max(self.courses[BALANCED].spent_s, 1e-9)

    def headline(self, *, is_same: bool) -> str:
        """The result in one line."""
        if not is_same:
            return "The answers differ, which is a bug"
        if self.times_as_fast < FASTER:
            return f"Moving key groups made this run no faster ({self.times_as_fast:.2f} times)"
        return f"Key groups move, engines become level: {self.times_as_fast:.2f} times as fast"

    @property
    def text(self) -> str:
        """All figures."""
        lines = [
            f"{self.race.title}. Wall clock from the commit of the first batch, in which Spark starts its workers,\n"
            "to that of the last:"
        ]
        lines += [
            f"  {name:<8}  {course.spent_s:5.1f} s, of which Spark's part {course.spark_share:.0f} %; "
            f"RSTD {course.mean_rstd:.0f} % on average; {course.moved} key groups moved"
            for name, course in self.courses.items()
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ComputingVerdict:
    """The race of engines that compute: how near they come to what the hottest key, with share `hottest`, allows.

    A batch takes as long as its slowest engine. Its share of the work is at least an equal part, and at least that of
    the hottest key, as all rows of a key go to one engine. Every event costs the same, so a key's share of the events
    is its share of the work.
    """

    race: Race
    courses: Mapping[str, Course]
    hottest: float

    @property
    def least_share(self) -> float:
        """The least share of a batch's work that its slowest engine can have."""
        return max(1 / self.race.engines, self.hottest)

    @property
    def since(self) -> int:
        """The first batch to compare: the first with moved key groups, or the second if there is none."""
        return next((place for place, batch in enumerate(self.courses[BALANCED].batches) if batch.moved), 1)

    def share(self, name: str) -> float:
        """The throughput of a job in percent of what the hottest key allows."""
        took_ms, least_ms = self._work_ms(name)
        return 100.0 * least_ms / max(took_ms, 1e-9)

    def shares(self, name: str) -> list[float]:
        """The same for each of its batches."""
        batches = self.courses[name].batches
        return [100.0 * self.least_share * worked_ms(batch) / max(slowest_ms(batch), 1e-9) for batch in batches]

    def _work_ms(self, name: str) -> tuple[float, float]:
        """How long the slowest engines worked, and the least possible time."""
        batches = self.courses[name].batches[self.since :]
        return sum(map(slowest_ms, batches)), self.least_share * sum(map(worked_ms, batches))

    @property
    def text(self) -> str:
        """All figures."""
        why = "the first with moved key groups" if self.courses[BALANCED].moved else "as nothing moved"
        lines = [
            f"{self.race.title}. The ceiling: a batch takes as long as its slowest engine, which has at least "
            f"1/{self.race.engines} of\nthe work, or the hottest card's {100 * self.hottest:.0f} % if that is more. "
            f"Work of the slowest engines from batch {self.since + 1} on, {why}:"
        ]
        for name, course in self.courses.items():
            took_ms, least_ms = self._work_ms(name)
            lines.append(
                f"  {name:<8}  {took_ms / 1e3:5.1f} s, at least {least_ms / 1e3:.1f} s: {self.share(name):.0f} % of "
                f"what the hottest key allows; Spark's part of a batch {course.spark_share:.0f} %; {course.moved} key "
                f"groups moved"
            )
        return "\n".join(lines)
