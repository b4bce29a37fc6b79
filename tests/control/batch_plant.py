"""A stream's batches, simulated: what each one costs, what arrives meanwhile, and the controller of the intake."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from trimtab.control.intake import IntakeLimit, IntakeObserved
from trimtab.control.intake_controller import IntakeController, IntakeState


@dataclass
class BatchPlant:
    """`batch_s = fixed_s + a_row_s * rows`, with noise.

    noise          the standard deviation of a batch time, as a share of it
    slow_first     how many batches take five to ten times as long, because they compile
    plain_s        for so many seconds rows cost ten times as much, because engines run plain Python
    spikes         the share of batches that take twice as long
    backlog        rows that wait at first
    rate_per_s     rows that arrive
    late           how many batches later a limit is in force
    """

    fixed_s: float = 0.2
    a_row_s: float = 1e-6
    noise: float = 0.05
    slow_first: int = 0
    plain_s: float = 0.0
    spikes: float = 0.0
    backlog: float = 1e12
    rate_per_s: float = 0.0
    bytes_a_row: float = 20.0
    memory_a_row: float = 1e-7
    late: int = 0
    seed: int = 0
    observed: list[IntakeObserved] = field(default_factory=list)
    limits: list[IntakeLimit] = field(default_factory=list)
    state: IntakeState | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def run(self, controller: IntakeController, batches: int) -> list[float]:
        """The times of so many batches more."""
        state = controller.start() if self.state is None else self.state
        waiting = [state.limit_rows] * (self.late + 1)
        for _ in range(batches):
            in_force = waiting.pop(0)
            rows = int(min(in_force, self.backlog))
            is_plain = sum(seen.batch_s for seen in self.observed) < self.plain_s
            a_row_s = 10 * self.a_row_s if is_plain else self.a_row_s
            batch_s = (self.fixed_s + a_row_s * rows) * max(0.2, self.random.gauss(1.0, self.noise))
            if len(self.observed) < self.slow_first:
                batch_s *= self.random.uniform(5.0, 10.0)
            if self.spikes and self.random.random() < self.spikes:
                batch_s *= 2.0
            waited_s = (self.backlog - rows) / self.rate_per_s if self.rate_per_s else 0.0
            self.backlog += self.rate_per_s * batch_s - rows
            seen = IntakeObserved(
                rows=rows,
                bytes=int(rows * self.bytes_a_row),
                batch_s=batch_s,
                limit_rows=in_force,
                latency_s=waited_s + 2 * batch_s,
                backlog_rows=int(self.backlog - sum(waiting)),
                free_memory_share=max(0.0, 0.7 - self.memory_a_row * rows),
                is_plain=is_plain,
            )
            state, limit = controller.step(state, seen)
            waiting.append(limit.rows)
            self.observed.append(seen)
            self.limits.append(limit)
        self.state = state
        return [seen.batch_s for seen in self.observed[-batches:]]


def share_within(times: list[float], reference: float, band: float = 0.2) -> float:
    """The share of batches whose time is within a band around the reference."""
    return sum(abs(each - reference) <= band * reference for each in times) / len(times)


def back_after(times: list[float], reference: float, band: float = 0.2) -> int:
    """How many batches there are before three in a row within the band."""
    near = [abs(each - reference) <= band * reference for each in times]
    return next((k for k in range(len(near) - 2) if all(near[k : k + 3])), len(near))
