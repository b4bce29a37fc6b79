"""The plain twin of the message cluster: one event after the other, in fractions, so that nothing is rounded.

It is independent of the kernel and has no work clock. A worker has a queue and the remaining work of the message at
its head; between two events, that decreases by speed times time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True)
class Waiting:
    work: Fraction
    slot: int
    arrived_s: Fraction


@dataclass
class PlainWorker:
    speed_at: Callable[[Fraction], Fraction]
    queue: deque[Waiting] = field(default_factory=deque)
    left: Fraction = Fraction(0)  # work left of the message at the head
    offered: Fraction = Fraction(0)  # what it could have served in the running slot
    latencies: dict[int, list[Fraction]] = field(default_factory=dict)  # by slot of arrival

    def take(self, message: Waiting) -> None:
        if not self.queue:
            self.left = message.work
        self.queue.append(message)

    def finish_s(self, now: Fraction) -> list[Fraction]:
        speed = self.speed_at(now)
        return [now + self.left / speed] if self.queue and speed > 0 else []

    def work_until(self, now: Fraction, then: Fraction) -> None:
        done = self.speed_at(now) * (then - now)
        self.offered += done
        if not self.queue:
            return
        self.left -= done
        if self.left == 0:
            message = self.queue.popleft()
            self.latencies.setdefault(message.slot, []).append(then - message.arrived_s)
            self.left = self.queue[0].work if self.queue else Fraction(0)


@dataclass
class PlainCluster:
    workers: list[PlainWorker]
    changes_s: Sequence[Fraction]  # speeds are constant in between
    now: Fraction = Fraction(0)

    def go_to(self, target: Fraction) -> None:
        while self.now < target:
            events = [target, *(change for change in self.changes_s if change > self.now)]
            for worker in self.workers:
                events += worker.finish_s(self.now)
            then = min(events)
            for worker in self.workers:
                worker.work_until(self.now, then)
            self.now = then


@dataclass
class PlainRun:
    assigned: list[list[int]]
    queue_length: list[list[int]]
    utilisation: list[list[Fraction]]
    latencies: list[list[list[Fraction]]]  # by slot of arrival and worker


def plain_run(
    route: Callable[[int], int],
    keys: Sequence[int],
    times_s: Sequence[Sequence[Fraction]],  # by slot
    work: Sequence[Fraction],
    slot_s: Fraction,
    cluster: PlainCluster,
    at_slot_end: Callable[[list[Fraction], list[int]], None] = lambda _utilisation, _queue: None,
) -> PlainRun:
    """Run to the end of the last slot, then drain."""
    run = PlainRun([], [], [], [])
    messages = iter(zip(keys, work, strict=True))
    for slot, times in enumerate(times_s):
        assigned = [0] * len(cluster.workers)
        for time_s in times:
            cluster.go_to(time_s)
            key, amount = next(messages)
            chosen = route(key)
            cluster.workers[chosen].take(Waiting(amount, slot, time_s))
            assigned[chosen] += 1
        cluster.go_to((slot + 1) * slot_s)
        run.assigned.append(assigned)
        run.queue_length.append([len(worker.queue) for worker in cluster.workers])
        run.utilisation.append([count / w.offered for count, w in zip(assigned, cluster.workers, strict=True)])
        for worker in cluster.workers:
            worker.offered = Fraction(0)
        at_slot_end(run.utilisation[-1], run.queue_length[-1])
    while any(worker.queue for worker in cluster.workers):
        cluster.go_to(cluster.now + 1000)
    run.latencies = [[w.latencies.get(slot, []) for w in cluster.workers] for slot in range(len(times_s))]
    return run
