"""Elements with queues, disturbed and controlled, in discrete time: the testbed of Xu 2005 as a few equations.

`run_intake` is one element after an input queue, whose intake a controller may set (the paper's figures 3, 4 and 6).
`run_split` is a splitter, several elements and then a combiner (figures 7, 8 and 9). Events are amounts and not
objects, so an interval takes the same time whether ten events arrive or a million.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.control import Controller
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Element:
    """One processing element: events come in and are processed, and their results wait to be fetched.

    With w results waiting, `rate * w / (w + half_speed)` leave in an interval: none when idle, nearly `rate` under high
    load. This is the fluid form of a queue with random service; near a level of w it is a first-order model. Results
    that find no room are dropped, after all the work was done on them (the paper's section 3.1).

    rate          events an interval that leave at most, with nothing else running
    half_speed    the number of waiting results at which half of `rate` leave
    room          results that the queue holds; infinite by default
    result_bytes  the size of one; 134 bytes make `b = -134`, the paper's figure
    jitter        how much the rate varies from interval to interval: the standard deviation as a share of it
    """

    rate: float
    half_speed: float
    room: float = math.inf
    result_bytes: float = 134.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        """Raise BalanceError for a value that is out of range."""
        _need(
            self.rate > 0 and self.half_speed >= 0 and self.room > 0,
            "an element's rate and room must be more than 0, its half_speed 0 or more",
        )
        _need(
            self.jitter >= 0 and self.result_bytes > 0,
            "an element's jitter must be 0 or more, its result_bytes more than 0",
        )

    def work(self, waiting: float, came_in: float, rate: float) -> tuple[float, float, float]:
        """One interval at this rate: (results waiting after it, results that left, results dropped)."""
        present = waiting + came_in
        left = min(present, rate * present / (present + self.half_speed)) if present > 0 else 0.0
        kept = min(present - left, self.room)
        return kept, left, present - left - kept


@dataclass(frozen=True, slots=True)
class Hog:
    """Something else that uses an element's processors in the intervals from `start` to before `stop`."""

    start: int
    stop: int
    rate_left: float
    element: int = 0

    def __post_init__(self) -> None:
        """Raise BalanceError unless `rate_left` is above 0 and at most 1."""
        _need(0 < self.rate_left <= 1, f"rate_left is {self.rate_left}, and must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Burst:
    """The intervals from `start` to before `stop`, in which `factor` times as many events arrive."""

    start: int
    stop: int
    factor: float


@dataclass(frozen=True, slots=True, eq=False)
class IntakeTrace:
    """What one element did; one entry per interval.

    arrived   events from outside           admitted  events that the element took in
    requested what the controller requested finished  results that left
    dropped   results that found no room    waiting   events in the input queue at the end of the interval
    free_bytes  room in the result queue at the start of the interval: what the controller measured
    """

    arrived: Float64Array
    requested: Float64Array
    admitted: Float64Array
    finished: Float64Array
    dropped: Float64Array
    waiting: Float64Array
    free_bytes: Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class SplitTrace:
    """What several elements after a splitter did.

    arrived    (intervals,)            events from outside
    shares     (intervals, elements)   what each element got of them
    responses  (intervals, elements)   the time that results wait there, in intervals (Little's law), as measured
    delays     (intervals,)            from arrival until the combiner has the last result of an interval's events and
                                       of all before it, in intervals; NaN: not by the end
    """

    arrived: Float64Array
    shares: Float64Array
    responses: Float64Array
    delays: Float64Array


def arrival_rates(intervals: int, rate: float, bursts: Sequence[Burst] = ()) -> Float64Array:
    """The mean number of events that arrive in each interval.

    >>> arrival_rates(5, 100.0, [Burst(1, 3, 2.5)])
    array([100., 250., 250., 100., 100.])
    """
    rates = np.full(intervals, rate, dtype=np.float64)
    for burst in bursts:
        rates[burst.start : burst.stop] *= burst.factor
    return rates


def run_intake(
    element: Element,
    rates: npt.ArrayLike,
    *,
    controller: Controller[Any, float, float] | None = None,
    first_action: float = 0.0,
    first_results: float = 0.0,
    action_delay: int = 1,
    hogs: Sequence[Hog] = (),
    seed: int = 0,
) -> IntakeTrace:
    """One element; a controller may set its intake from the free bytes of its result queue.

    An action takes effect `action_delay` intervals later. Without a controller everything that arrives goes straight
    in; with one, the rest waits in the input queue. If less went in than the controller requested, because that queue
    was empty, it gets the amount as `applied`. A run begins with `first_action` in force and `first_results` waiting.

    >>> trace = run_intake(Element(100.0, 50.0, room=400.0), arrival_rates(40, 120.0), seed=1)
    >>> bool(trace.dropped[:5].sum() == 0), bool(trace.dropped[-5:].min() > 0), bool(trace.free_bytes[-1] == 0)
    (True, True, True)
    """
    arrived, speeds = _weather([element], rates, hogs, action_delay, seed)
    intervals = len(arrived)
    requested, admitted, finished = np.full(intervals, np.nan), np.zeros(intervals), np.zeros(intervals)
    dropped, queue, free = np.zeros(intervals), np.zeros(intervals), np.zeros(intervals)
    state = None if controller is None else controller.start(first_action)
    waiting, results = 0.0, min(first_results, element.room)
    starved: float | None = None
    for k in range(intervals):
        waiting += arrived[k]
        free[k] = (element.room - results) * element.result_bytes
        allowed = waiting
        if controller is not None:
            state, requested[k] = controller.step(state, float(free[k]), applied=starved)
            allowed = requested[k - action_delay] if k >= action_delay else first_action
        admitted[k] = min(waiting, max(0.0, allowed))
        starved = float(admitted[k]) if controller is not None and waiting < allowed else None
        waiting -= admitted[k]
        results, finished[k], dropped[k] = element.work(results, admitted[k], speeds[k, 0])
        queue[k] = waiting
    return IntakeTrace(arrived, requested, admitted, finished, dropped, queue, free)


def run_split(
    elements: Sequence[Element],
    rates: npt.ArrayLike,
    *,
    balancer: Controller[Any, Float64Array, Float64Array] | None = None,
    action_delay: int = 1,
    hogs: Sequence[Hog] = (),
    seed: int = 0,
) -> SplitTrace:
    """Several elements; a balancer sets their shares of the events from their response times, or all shares are equal.

    Equal shares are what round robin gives. The combiner is a barrier: events leave in the order of their arrival, so
    the slowest element decides when all events of an interval have left.

    >>> trace = run_split([Element(100.0, 50.0)] * 2, arrival_rates(60, 120.0), hogs=[Hog(20, 60, 0.4)], seed=1)
    >>> bool(trace.delays[30] > 2 * trace.delays[15])
    True
    """
    arrived, speeds = _weather(elements, rates, hogs, action_delay, seed)
    intervals, count = len(arrived), len(elements)
    even = np.full(count, 1.0 / count)
    requested, shares, responses = (np.zeros((intervals, count)) for _ in range(3))
    entered, left = np.zeros((intervals, count)), np.zeros((intervals, count))
    state = None if balancer is None else balancer.start(even)
    waiting, measured = np.zeros(count), np.zeros(count)
    for k in range(intervals):
        responses[k] = measured
        shares[k] = even
        if balancer is not None:
            state, requested[k] = balancer.step(state, measured)
            shares[k] = requested[k - action_delay] if k >= action_delay else even
        entered[k] = shares[k] * arrived[k]
        for i, element in enumerate(elements):
            waiting[i], left[k, i], lost = element.work(waiting[i], entered[k, i], speeds[k, i])
            left[k, i] += lost  # a dropped result doesn't hold up the combiner
        measured = np.divide(waiting, left[k], out=np.zeros(count), where=left[k] > 0)
    delays = np.max([fifo_delays(entered[:, i], left[:, i]) for i in range(count)], axis=0)
    return SplitTrace(arrived, shares, responses, np.asarray(delays, dtype=np.float64))


def fifo_delays(entered: npt.ArrayLike, left: npt.ArrayLike) -> Float64Array:
    """How long after its end the last of each interval's events left, first come first served; NaN: not by the end.

    >>> fifo_delays([4.0, 4.0, 0.0, 0.0], [2.0, 2.0, 2.0, 1.0])
    array([ 1., nan, nan, nan])
    """
    came, went = np.cumsum(entered), np.concatenate([[0.0], np.cumsum(left)])
    times = np.arange(len(went), dtype=np.float64)
    # Sums of the same amounts in another order differ by rounding, which must not count as an event still inside.
    came = came * (1 - 1e-12)
    rising = np.concatenate([[True], np.diff(went) > 0])
    through = np.interp(came, went[rising], times[rising], right=np.nan)
    return np.asarray(np.maximum(through - times[1:], 0.0), dtype=np.float64)


def _weather(
    elements: Sequence[Element], rates: npt.ArrayLike, hogs: Sequence[Hog], action_delay: int, seed: int
) -> tuple[Float64Array, Float64Array]:
    """Arrivals and disturbances, all drawn before the run, so that they are the same for every controller."""
    means = np.asarray(rates, dtype=np.float64)
    _need(len(elements) > 0, "there must be at least one element")
    _need(
        means.ndim == 1 and bool(np.all(np.isfinite(means) & (means >= 0))),
        "rates must be one finite number an interval, 0 or more",
    )
    _need(action_delay >= 0, f"action_delay is {action_delay}, and must be 0 or more intervals")
    _need(all(0 <= hog.element < len(elements) for hog in hogs), f"a hog's element must be 0 to {len(elements) - 1}")
    random = np.random.default_rng(seed)
    arrived = random.poisson(means).astype(np.float64)
    jitters = np.array([element.jitter for element in elements])
    noise = np.clip(1.0 + jitters * random.standard_normal((len(means), len(elements))), 0.05, None)
    speeds = noise * np.array([element.rate for element in elements])
    for hog in hogs:
        speeds[hog.start : hog.stop, hog.element] *= hog.rate_left
    return arrived, speeds


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise BalanceError("simulate.setting", message)
