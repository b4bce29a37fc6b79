"""Estimates what key groups will cost from what batches measured: rate times cost per event, and the executors' speeds.

A rate changes at once when the stream does, so it is averaged over a few batches. The cost of an event hardly changes,
and is measured with more noise, so it is averaged over many. A key group of which little is known is assumed to cost
as much per event as the others (Heinze et al. 2013, section 3: new queries are estimated from known ones).

An executor's speed is what its key groups cost elsewhere or earlier, divided by what they cost there now. Only the
ratio between executors counts: what slows all of them down alike is no reason to move anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np

from trimtab.deciding.observation import Float64Array, Int64Array, Observation
from trimtab.deciding.placement import Spread
from trimtab.deciding.policy import Measure
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.planning.problem import BoolArray

Scalable = TypeVar("Scalable", float, Float64Array)

COST_HALF_LIFE = 8.0
"""After this many batches, a measured cost per event counts half."""
KNOWN_EVENTS = 20.0
"""After this many events, a key group's own cost weighs as much as the average of all."""
ALIKE = 0.1
"""Executors whose speeds differ by less than this from the median are taken to be equal: such differences are noise."""
SPEED_HALF_LIFE = 1.0
FEW_GROUPS = 8
"""With fewer key groups than this, an executor's speed is unknown until they have also been elsewhere."""
STRIKING = 1.4
"""If an executor's median key group costs this many times what it does elsewhere, the executor is slow; otherwise the
key groups are costly."""
GAPS = 20
"""The shortest pause within this many batches is Spark's overhead; longer ones may be for lack of rows."""
SMALL_BATCH = 0.25
"""A batch with less than this share of the usual number of events shows little of how even the load is."""
SHORTEST_S = 1e-3
"""Spans are taken to be at least this long, so that rates stay finite."""
LEAST_FREE = 0.1
"""At least this share of the time between two batches is counted as the engines', however long the overhead."""


class LoadEstimates:
    """What the coordinator knows of the loads of one stream.

    >>> from trimtab.deciding.placement import Placement
    >>> estimates = LoadEstimates(Measure.BUSY, half_life=2.0, interval_s=1.0)
    >>> estimates.take(Observation.of_events(0, Placement.even(2, 4), [300, 100, 100, 100]))
    >>> estimates.loads().round(1).tolist()  # percent of an engine's time: what 0.6 s of overhead leave of a second
    [75.0, 25.0, 25.0, 25.0]
    """

    def __init__(self, measure: Measure, *, half_life: float, interval_s: float) -> None:
        self._measure, self._interval_s = measure, interval_s
        self._fade, self._cost_fade = 0.5 ** (1.0 / half_life), 0.5 ** (1.0 / COST_HALF_LIFE)
        self._taken = 0
        self._rates: Float64Array = np.zeros(0)  # events a second, by group
        self._rates_now: Float64Array = np.zeros(0)
        self._is_small = False  # the last batch
        self._events: Float64Array = np.zeros(0)  # long averages of a batch's events, and of their time at speed 1
        self._busy_ns: Float64Array = np.zeros(0)
        self.state_bytes: Float64Array = np.zeros(0)  # the size of each group's state, as far as batches have shown it
        self._hot: dict[int, float] = {}  # nanoseconds or events in a second, by slot
        self._speeds: dict[str, float] = {}
        self._executors: tuple[str, ...] = ()
        self._known_executors: set[str] = set()
        self._overhead_s = 0.0
        self._gaps_s: deque[float] = deque(maxlen=GAPS)

    def take(self, observed: Observation) -> None:
        """Take a batch in."""
        # The first batch of a run loads code and connects workers: its costs are forgotten with the next batch.
        fresh = self._taken <= 1 or len(self._rates) != len(observed.events)
        self._taken += 1
        begins = self._begins(observed)
        self._executors = observed.executors
        self._update_speeds(observed, begins, fresh)
        speed = self._engine_speeds()[observed.placement.array()]
        events, busy_ns = self._without_hot_keys(observed)
        rates, busy = events / max(observed.span_s, observed.batch_s, SHORTEST_S), busy_ns * speed
        self._rates_now = rates
        # A batch that ends before the interval is over waits for the next one: that is free time, not Spark's overhead.
        self._gaps_s.append(max(0.0, observed.span_s - max(observed.batch_s, self._interval_s)))
        if fresh:
            self._rates, self._events, self._busy_ns = rates, events.astype(np.float64), busy
            self.state_bytes, self._overhead_s = observed.state_bytes.astype(np.float64), observed.overhead_s
            return
        self._is_small = float(observed.events.sum()) < SMALL_BATCH * float(self._events.sum())
        busy = np.where(begins[observed.placement.array()], events * self.event_ns(), busy)
        self._rates = _faded(self._rates, rates, self._fade)
        self._events = _faded(self._events, events, self._cost_fade)
        self._busy_ns = _faded(self._busy_ns, busy, self._cost_fade)
        self._overhead_s = self._fade * self._overhead_s + (1 - self._fade) * observed.overhead_s
        # A batch writes only the state of the keys that it touched: the group's state is at least as large.
        self.state_bytes = np.maximum(observed.state_bytes, self.state_bytes * 0.99)

    def loads(self, apart: Collection[int] = (), *, now: bool = False) -> Float64Array:
        """By key group, without the hot keys in `apart`: percent of an engine's time at speed 1, or the measure's unit.

        `now`: of the last batch alone, unless that batch was small.
        """
        rates = self._rates_now if now and not self._is_small else self._rates
        match self._measure:
            case Measure.BUSY:
                total = np.asarray(self._scaled(rates * self.event_ns()))
            case Measure.EVENTS:
                total = rates.copy()
            case Measure.STATE:
                total = self.state_bytes.copy()
        for slot, load in self._hot.items():
            if slot not in apart:
                total[slot >> GROUP_SHIFT] += self._scaled(load)
        return total

    def hot_keys(self) -> tuple[Int64Array, Float64Array]:
        """The slots of keys that may be spread, in order, and the load of each."""
        slots = np.array(sorted(self._hot), np.int64)
        return slots, np.array([self._scaled(self._hot[slot]) for slot in slots.tolist()], np.float64)

    def ballast(self, spread: Sequence[Spread], engines: int) -> Float64Array:
        """The load of each engine's parts of spread keys, which stays when key groups move."""
        total = np.zeros(engines)
        for each in spread:
            np.add.at(total, list(each.engines), self._scaled(self._hot.get(each.slot, 0.0)) / len(each.engines))
        return total

    def _scaled(self, load: Scalable) -> Scalable:
        """Nanoseconds in a second as percent of an engine's time; other measures stay as they are."""
        return load / 1e7 / self.free_share if self._measure is Measure.BUSY else load

    def _without_hot_keys(self, observed: Observation) -> tuple[Int64Array, Int64Array]:
        """Events and time of key groups, with the hot keys of split queries counted on their own."""
        if self._measure is Measure.STATE:
            return observed.events, observed.busy_ns
        hot, span_s = observed.hot, max(observed.span_s, observed.batch_s, SHORTEST_S)
        loads = self._hot_ns(observed) if self._measure is Measure.BUSY else hot.events
        now = dict(zip(hot.slots.tolist(), loads, strict=True))
        for slot in {*self._hot, *now}:
            before = self._hot.get(slot, now.get(slot, 0.0) / span_s)
            self._hot[slot] = self._fade * before + (1 - self._fade) * float(now.get(slot, 0.0)) / span_s
        if not len(hot.slots):
            self._hot.clear()
            return observed.events, observed.busy_ns
        whole = ~np.isin(hot.slots, observed.placement.spread_slots())
        groups = hot.slots[whole] >> GROUP_SHIFT
        events, busy_ns = observed.events.copy(), observed.busy_ns.copy()
        np.subtract.at(events, groups, hot.events[whole])
        np.subtract.at(busy_ns, groups, hot.busy_ns[whole])
        least = 1e-3 * max(self._hot.values())
        self._hot = {slot: load for slot, load in self._hot.items() if load > least}
        return np.maximum(events, 0), np.maximum(busy_ns, 0)

    def _hot_ns(self, observed: Observation) -> Float64Array:
        """The time of hot keys as it would be at speed 1; a spread key counts at the mean speed of its engines."""
        slowness = 1.0 / self._engine_speeds()
        at_home = slowness[observed.placement.array()[observed.hot.slots >> GROUP_SHIFT]]
        spread = {each.slot: float(slowness[list(each.engines)].mean()) for each in observed.placement.spread}
        slots = zip(observed.hot.slots.tolist(), at_home.tolist(), strict=True)
        return np.asarray(observed.hot.busy_ns / np.array([spread.get(slot, home) for slot, home in slots]), np.float64)

    def event_ns(self) -> Float64Array:
        """What an event of each key group costs, at speed 1."""
        total = float(self._events.sum())
        usual = float(self._busy_ns.sum()) / total if total else 0.0
        if self._taken < 2:  # in the first batch code is loaded, and the first key groups would be charged for it
            return np.full(len(self._events), usual)
        return (self._busy_ns + KNOWN_EVENTS * usual) / (self._events + KNOWN_EVENTS)

    @property
    def free_share(self) -> float:
        """The share of time that is left to the engines, if a batch is begun once in every interval."""
        overhead_s = self._overhead_s + min(self._gaps_s, default=0.0)
        return max(LEAST_FREE, 1.0 - overhead_s / self._interval_s)

    def capacities(self, engines: int) -> Float64Array:
        """The capacity of each engine: 100 at speed 1. Engines still to come are taken to be as fast as the average."""
        known = self._engine_speeds()[:engines]
        coming = np.full(max(0, engines - len(known)), known.mean() if len(known) else 1.0)
        return 100.0 * np.concatenate([known, coming])

    def _engine_speeds(self) -> Float64Array:
        speeds = np.array([self._speeds.get(executor, 1.0) for executor in self._executors])
        return np.where(np.abs(speeds - 1.0) > ALIKE, speeds, 1.0)

    def _begins(self, observed: Observation) -> BoolArray:
        """Which engines are new or on a new executor: they load code and connect workers, which happens only once."""
        known, now, engines = self._known_executors, observed.executors, len(self._executors)
        self._known_executors = known | set(now)
        return np.array([executor not in known or engine >= engines for engine, executor in enumerate(now)])

    def _update_speeds(self, observed: Observation, begins: BoolArray, fresh: bool) -> None:
        """Compare the time that each executor's key groups took with the time expected of them."""
        names = tuple(dict.fromkeys(observed.executors))
        if len(names) < 2 or self._measure is not Measure.BUSY:
            self._speeds = {}
            return
        owner = observed.placement.array()
        number = np.array([names.index(executor) for executor in observed.executors])[owner]
        if fresh:
            self._speeds = dict(zip(names, _speeds_at_first(observed, number, len(names)), strict=True))
            return
        settled = ~begins[owner]
        expected = np.bincount(number, weights=settled * observed.events * self.event_ns(), minlength=len(names))
        actual = np.bincount(number, weights=settled * observed.busy_ns, minlength=len(names))
        known = (expected > 0) & (actual > 0)
        if not known.any():
            return
        ratios = np.ones(len(names))  # one that is new or had nothing to do is taken to be as fast as the median
        ratios[known] = expected[known] / actual[known]
        ratios[known] /= np.median(ratios[known])
        fade = 0.5 ** (1.0 / SPEED_HALF_LIFE)
        self._speeds = {
            executor: float(np.clip(fade * self._speeds.get(executor, 1.0) + (1 - fade) * ratio, 0.05, 20.0))
            for executor, ratio in zip(names, ratios, strict=True)
        }


def _speeds_at_first(observed: Observation, number: Int64Array, executors: int) -> list[float]:
    """The speeds of executors before the costs of key groups are known; `number` is the executor of each key group.

    Key groups differ in cost, but it is unlikely that nearly all of one executor's are costly.
    """
    known = (observed.events > 0) & (observed.busy_ns > 0)
    event_ns, number = observed.busy_ns[known] / observed.events[known], number[known]
    costs = [event_ns[number == executor] for executor in range(executors)]
    if min(len(each) for each in costs) < FEW_GROUPS:
        return [1.0] * executors
    usual = np.array([float(np.median(each)) for each in costs])
    speeds = np.median(usual) / usual
    return [float(speed) if max(speed, 1 / speed) > STRIKING else 1.0 for speed in speeds]


def _faded(old: Float64Array, new: Float64Array | Int64Array, keep: float) -> Float64Array:
    return keep * old + (1 - keep) * new
