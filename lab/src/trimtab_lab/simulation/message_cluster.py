"""A cluster that serves messages: arrivals, any router, workers with first-in-first-out queues, and their signals.

Every message is computed, none is sampled: each worker has a work clock (how much it could have served so far). A
message that arrives when that clock shows c starts at work max(c, the end of the message before it), Lindley's
recursion, and finishes when the clock reaches its end. A changed speed only changes how fast the clock runs. The model
is that of Nasir (2017), section IV: unbounded queues, no network delay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import cast

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.router import Router
from trimtab_lab.simulation.arrivals import Arrivals
from trimtab_lab.simulation.worker_signals import ListensToWorkers, SignalRule
from trimtab_lab.simulation.worker_speeds import WorkerSpeeds

Float64Array = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


class Work(Enum):
    """How much work a message is, in units of a worker's speed (messages a second)."""

    CONSTANT = "constant"
    """Always 1: a message takes 1 / speed seconds."""

    EXPONENTIAL = "exponential"
    """1 on average, exponentially distributed."""


@dataclass(frozen=True, slots=True, eq=False)
class MessageRun:
    """What happened, slot by slot. Arrays are (slots, workers), except the last two: (slots,).

    assigned         messages routed to each worker in the slot
    queue_length     messages that have arrived and not finished when the slot ends, the one in service among them
    mean_latency_s   from arrival to finish, over the messages that arrived in the slot; 0 if none did
    max_latency_s    the longest of them; infinite for a worker that has stopped for good
    utilisation      assigned over what the worker could have served in the slot; above 1 it falls behind
    replicas         (key, worker) pairs by the slot's end: the memory that the routing needs; None if not counted
    moments_s        (slots,) when each slot ends
    """

    assigned: Int64Array
    queue_length: Int64Array
    mean_latency_s: Float64Array
    max_latency_s: Float64Array
    utilisation: Float64Array
    replicas: Int64Array | None
    moments_s: Float64Array

    @property
    def imbalance(self) -> Float64Array:
        """(slots,) the paper's I(t) over each slot: the largest utilisation less the mean of all."""
        excess: Float64Array = self.utilisation.max(axis=1) - self.utilisation.mean(axis=1)
        return excess

    @property
    def latency_s(self) -> float:
        """Mean latency over all messages."""
        total = self.assigned.sum()
        return float((self.mean_latency_s * self.assigned).sum() / total) if total else 0.0


def spread(values: Int64Array | Float64Array) -> Float64Array:
    """(slots,) the largest less the smallest worker in each slot: how figures 9, 10, 12 and 13 report.

    >>> spread(np.array([[1, 5, 2], [3, 3, 3]])).tolist()
    [4.0, 0.0]
    """
    difference: Float64Array = (values.max(axis=1) - values.min(axis=1)).astype(np.float64)
    return difference


@kernel
def serve(
    times_s: Float64Array,
    chosen: Int32Array,
    work: Float64Array,
    starts_s: Float64Array,
    per_s: Float64Array,
    work_at_starts: Float64Array,
    busy_until: Float64Array,
    piece_of: Int64Array,
    slot_ends_s: Float64Array,
    slot_of: Int64Array,
    departures: Int64Array,
    assigned: Int64Array,
    latency_sum_s: Float64Array,
    latency_max_s: Float64Array,
) -> None:
    """Queue and serve messages in order of arrival; all state is in the arrays, which are changed in place.

    times_s, chosen, work            (n,) arrival, worker and work of each message; `work` of size 1 stands for all
    starts_s, per_s, work_at_starts  the workers' speeds, as in `WorkerSpeeds`
    busy_until                       (workers,) the work clock at which each worker has served all it got
    piece_of, slot_of                (workers,) piece of time and slot of the worker's last finish: both only rise
    departures                       (slots + 1, workers) finishes by slot; the last row is after the run
    assigned, latency_*              (workers,) sums over the messages of this call
    """
    pieces, slots = starts_s.size, slot_ends_s.size
    now = 0
    same_work = work.size == 1
    for i in range(times_s.size):
        time_s, worker = times_s[i], chosen[i]
        while now + 1 < pieces and starts_s[now + 1] <= time_s:
            now += 1
        clock = work_at_starts[worker, now] + per_s[worker, now] * (time_s - starts_s[now])
        end = max(clock, busy_until[worker]) + (work[0] if same_work else work[i])
        busy_until[worker] = end
        # Finishes of one worker are in order, so its piece of time never goes back.
        piece = piece_of[worker]
        while piece + 1 < pieces and work_at_starts[worker, piece + 1] < end:
            piece += 1
        piece_of[worker] = piece
        if per_s[worker, piece] > 0.0:
            finish_s = starts_s[piece] + (end - work_at_starts[worker, piece]) / per_s[worker, piece]
        else:
            finish_s = np.inf
        slot = slot_of[worker]
        while slot < slots and slot_ends_s[slot] < finish_s:
            slot += 1
        slot_of[worker] = slot
        departures[slot, worker] += 1
        assigned[worker] += 1
        latency_s = finish_s - time_s
        latency_sum_s[worker] += latency_s
        latency_max_s[worker] = max(latency_max_s[worker], latency_s)


def _silent(_done: float) -> None:
    """Report no progress."""


def simulate_messages(
    router: Router,
    keys: Int64Array,
    arrivals: Arrivals,
    speeds: WorkerSpeeds,
    *,
    work: Work = Work.CONSTANT,
    signals: SignalRule | None = None,
    ask_replicas: bool = True,
    seed: int = 0,
    progress: Callable[[float], None] = _silent,
) -> MessageRun:
    """Send `keys` through `router` to the workers, as they arrive; after each slot the workers signal.

    The router gets the keys and the signals, never the queues. It keeps its counts, so use a new one for each run. The
    same arguments give the same result. About 30 million messages a second, without the routing.

    keys          (messages,) in order of arrival, as many as `arrivals` has
    signals       None: workers don't signal. Otherwise the router must have `signal(busy, idle)`
    ask_replicas  False for a router that does not count them
    progress      called after each slot with the share done

    >>> from trimtab_lab.routers import KeyGrouping
    >>> arrivals = Arrivals.steady(40, slots=2, slot_s=10.0)
    >>> run = simulate_messages(KeyGrouping(1), np.zeros(40, np.int64), arrivals, WorkerSpeeds.constant([1.0]))
    >>> run.queue_length.tolist(), run.utilisation.tolist(), run.max_latency_s.tolist()
    ([[10], [20]], [[2.0], [2.0]], [[10.5], [20.5]])

    Reference: Nasir et al. (2017), section IV (model) and VII.A (monitoring); Lindley (1952).
    """
    if keys.size != arrivals.messages:
        raise BalanceError("simulate.messages", f"{keys.size} keys for {arrivals.messages} arrivals")
    if router.workers != speeds.workers:
        raise BalanceError("simulate.workers", f"the router has {router.workers} workers, the cluster {speeds.workers}")
    if signals is not None and not callable(getattr(router, "signal", None)):
        raise BalanceError(
            "simulate.signals",
            f"{type(router).__name__} takes no signals",
            "leave `signals` out, or route by ConsistentGrouping",
        )
    rng = np.random.default_rng(seed)
    workers, slots = speeds.workers, arrivals.slots
    edges_s = np.concatenate(([0.0], arrivals.slot_ends_s))
    slot_capacity = np.ascontiguousarray(np.diff(speeds.work_by_s(edges_s), axis=1).T)
    work_at_starts, slot_ends_s = speeds.work_at_starts(), arrivals.slot_ends_s
    busy_until, piece_of, slot_of = np.zeros(workers), np.zeros(workers, np.int64), np.zeros(workers, np.int64)
    departures = np.zeros((slots + 1, workers), np.int64)
    assigned, waiting = np.zeros((slots, workers), np.int64), np.zeros((slots, workers), np.int64)
    latency_sum_s, latency_max_s = np.zeros((slots, workers)), np.zeros((slots, workers))
    utilisation, replicas = np.zeros((slots, workers)), np.zeros(slots, np.int64)
    in_system = np.zeros(workers, np.int64)
    first = 0
    for slot in range(slots):
        last = first + int(arrivals.counts[slot])
        times_s = arrivals.times_s(slot, rng)
        amounts = np.ones(1) if work is Work.CONSTANT else rng.standard_exponential(last - first)
        # An array of one random work counts as "the same for all messages", which is right for one message.
        serve(
            times_s, router.route(keys[first:last]), amounts, speeds.starts_s, speeds.per_s, work_at_starts,
            busy_until, piece_of, slot_ends_s, slot_of, departures,
            assigned[slot], latency_sum_s[slot], latency_max_s[slot],
        )  # fmt: skip
        in_system += assigned[slot] - departures[slot]
        waiting[slot] = in_system
        utilisation[slot] = _utilisation(assigned[slot], slot_capacity[slot])
        if ask_replicas:
            replicas[slot] = router.replicas
        if signals is not None:
            cast("ListensToWorkers", router).signal(*signals.busy_and_idle(utilisation[slot], waiting[slot]))
        first = last
        progress((slot + 1) / slots)
    with np.errstate(invalid="ignore"):
        mean_latency_s = np.where(assigned > 0, latency_sum_s / np.maximum(assigned, 1), 0.0)
    return MessageRun(
        assigned=assigned,
        queue_length=waiting,
        mean_latency_s=mean_latency_s,
        max_latency_s=latency_max_s,
        utilisation=utilisation,
        replicas=replicas if ask_replicas else None,
        moments_s=slot_ends_s,
    )


def _utilisation(assigned: Int64Array, capacity: Float64Array) -> Float64Array:
    """Messages over capacity; a stopped worker has 1, or infinity if it got messages."""
    still = capacity <= 0.0
    ratio = assigned / np.where(still, 1.0, capacity)
    return np.where(still, np.where(assigned > 0, np.inf, 1.0), ratio)
