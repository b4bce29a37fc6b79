"""What came of each race, in words and figures, for the terminal and for the picture. Nothing is claimed unmeasured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab_lab.demo.race import BALANCED, HASHED, Course, Race, slowest_ms, worked_ms

FASTER = 1.05
"""Below this ratio of times, balanced isn't called faster."""


@dataclass(frozen=True, slots=True)
class WaitingVerdict:
    """Engines whose work is simulated: how long both jobs took by wall clock."""

    race: Race
    courses: Mapping[str, Course]

    @property
    def times_as_fast(self) -> float:
        """The hashed job's time over the balanced one's, both from the commit of the first batch on."""
        return self.courses[HASHED].spent_s / max(self.courses[BALANCED].spent_s, 1e-9)

    def headline(self, *, is_same: bool) -> str:
        """The result in a line."""
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
    """Engines that compute: how near they came to what the hottest key allows. `hottest`: its share of the events.

    A batch takes as long as its slowest engine. That one can't have less than an equal part of the work, and not less
    than the hottest key's, whose rows are one engine's. Every event costs the same, so a key's share of the events is
    its share of the work.
    """

    race: Race
    courses: Mapping[str, Course]
    hottest: float

    @property
    def least_share(self) -> float:
        """The least part of a batch's work that its slowest engine can have."""
        return max(1 / self.race.engines, self.hottest)

    @property
    def since(self) -> int:
        """The first batch that is compared: the first with moved key groups, or if there is none, the second."""
        return next((place for place, batch in enumerate(self.courses[BALANCED].batches) if batch.moved), 1)

    def share(self, name: str) -> float:
        """How much of what the hottest key allows a job reached, in percent."""
        took_ms, least_ms = self._work_ms(name)
        return 100.0 * least_ms / max(took_ms, 1e-9)

    def shares(self, name: str) -> list[float]:
        """The same for each of its batches alone."""
        batches = self.courses[name].batches
        return [100.0 * self.least_share * worked_ms(batch) / max(slowest_ms(batch), 1e-9) for batch in batches]

    def _work_ms(self, name: str) -> tuple[float, float]:
        """How long the slowest engines worked, and how long they would have at least."""
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
