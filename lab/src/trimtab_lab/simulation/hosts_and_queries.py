"""An elastic system in discrete time: queries start and end, hosts are taken from a pool and returned.

Loads of new queries are estimated by the planner's load model and measured from their second period on; latency follows
from how busy hosts are. All of FUGU's experiments run on it. All decisions are the planner's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import BalanceError
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.simulation.host_latency import process
from trimtab_lab.simulation.load_model import CPU, MEMORY, NETWORK, LoadModel, Measurement, StreamOperator
from trimtab_lab.simulation.query_day import EVENT_BYTES, KINDS, Float64Array, Int64Array, QueryDay

if TYPE_CHECKING:
    from scipy.sparse import csr_array

OPERATORS = len(KINDS)
WINDOW = KINDS.index("window")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The available hosts, all equal (Heinze, section 4), and what moving costs.

    pool               how many there are
    spares             how many are kept running without work, for fast scaling out
    start_up_s         how long one takes to start
    cores              of a host; its CPU capacity is 1, all cores together
    memory_bytes, network_bytes_per_s
    hop_s              the delay of an event that crosses the network
    pause_s            how long a move pauses an operator, without the time for its state
    state_bytes_per_s  how fast state is sent to another host
    """

    pool: int = 10
    spares: int = 2
    start_up_s: float = 60.0
    cores: int = 2
    memory_bytes: float = 4e9
    network_bytes_per_s: float = 1.25e8
    hop_s: float = 5e-4
    pause_s: float = 0.1
    state_bytes_per_s: float = 1e7


@dataclass(frozen=True, slots=True)
class Course:
    """The measures of a run, by period.

    queries, hosts       how many ran; hosts without operators don't count
    utilisation          mean CPU utilisation of the hosts in use
    highest_utilisation  of the busiest host; above 1: it is overloaded
    mean_ratio           latency now over latency in a query's first ten seconds: mean over queries
    highest_ratio        the same, of the query with the highest one
    moves, moved_bytes   operators that changed their host, and their state
    """

    queries: Int64Array
    hosts: Int64Array
    utilisation: Float64Array
    highest_utilisation: Float64Array
    mean_ratio: Float64Array
    highest_ratio: Float64Array
    moves: Int64Array
    moved_bytes: Float64Array

    @property
    def mean_utilisation(self) -> float:
        """The mean over all periods of the day, in percent."""
        return 100.0 * float(self.utilisation[self.hosts > 0].mean()) if np.any(self.hosts > 0) else 0.0


def run_day(
    day: QueryDay,
    planner: Callable[[Problem], Plan],
    *,
    adapt: Callable[[Problem], Plan] | None = None,
    foresight_s: float = 0.0,
    traffic_seen: bool = False,
    hosts: Hosts | None = None,
    seed: int = 0,
) -> Course:
    """Let a planner place the queries of a day.

    planner       called in every period in which a query started or ended; hosts that don't run are draining nodes
    adapt         called in every period after that, with the measurements of the one before: run-time adaptation
    foresight_s   while the rate rises, planners get the CPU loads of this much later, if it goes on rising
    traffic_seen  whether planners get the traffic between operators

    >>> from functools import partial
    >>> from trimtab_lab.planners.first_fit import first_fit
    >>> from trimtab_lab.simulation.query_day import query_day
    >>> course = run_day(query_day(750.0, seed=1, periods=60), partial(first_fit, threshold=0.85))
    >>> int(course.queries.max()), bool(course.highest_utilisation.max() < 1.0)
    (45, True)
    """
    system = _System(day, hosts or Hosts(), np.random.default_rng(seed))
    system.foresight_s, system.traffic_seen = foresight_s, traffic_seen
    for period in range(day.periods):
        if system.exchange(period):
            system.apply(planner(system.problem()))
        if adapt is not None and len(system.running):
            system.apply(adapt(system.problem()))
        system.pass_time(period)
    return Course(**{name: np.array(values) for name, values in system.recorded.items()})


class _System:
    """The state of the system between periods. Arrays are over all queries of the day; `running` has those that run."""

    def __init__(self, day: QueryDay, hosts: Hosts, rng: np.random.Generator) -> None:
        self.day, self.hosts = day, hosts
        self.foresight_s, self.traffic_seen = 0.0, False
        queries = len(day.first)
        self.received = np.stack([np.ones(queries), np.ones(queries), day.shares, day.shares], axis=1)
        self.sent = np.stack([np.ones(queries), day.shares, day.shares, np.zeros(queries)], axis=1)
        self.host_s_per_event = day.event_s * self.received  # of the stream, not of what the operator receives
        self.owner = np.full((queries, OPERATORS), NEW, dtype=np.int64)
        self.estimates = np.zeros((queries, OPERATORS, 3))
        self.pauses_s = np.zeros(queries)
        self.first_latency_s = np.full(queries, np.nan)
        self.running: Int64Array = np.zeros(0, dtype=np.int64)
        self.ready_s = np.full(hosts.pool, np.inf)  # when a host has started; infinite: it is off
        self.ready_s[: max(hosts.spares, 1)] = 0.0
        self.backlog_s = np.zeros(hosts.pool)
        self.noise = 1 + 0.02 * rng.standard_normal((*day.rates_per_s.shape, hosts.pool))
        self.now_s = self.rate_per_s = self.expected_per_s = 0.0
        self.model = _seen_before(day)
        self.recorded: dict[str, list[float]] = {name: [] for name in Course.__dataclass_fields__}

    def exchange(self, period: int) -> bool:
        """End and start queries; return whether any did."""
        day, before = self.day, self.running
        self.running = np.flatnonzero((day.first <= period) & (period < day.last))
        self.model = self.model.observe(rates_per_s={"ticks": float(day.rates_per_s[period].max())})
        for query in np.flatnonzero(day.first == period).tolist():
            self.estimates[query] = self.model.estimate(_template(query, float(day.windows_s[query])))
        self._switch_hosts()
        self.recorded["moves"].append(0)
        self.recorded["moved_bytes"].append(0.0)
        return not np.array_equal(before, self.running)

    def problem(self) -> Problem:
        """The planner's input: loads as estimated or measured; hosts that don't run count as draining."""
        hosts, loads = self.hosts, self._loads()
        return Problem(
            loads=loads,
            homes=self.owner[self.running].ravel(),
            capacities=np.tile([1.0, hosts.memory_bytes, hosts.network_bytes_per_s], (hosts.pool, 1)),
            draining=self.ready_s > self.now_s,
            state_bytes=loads[:, MEMORY],
            traffic=self._traffic() if self.traffic_seen else None,
            operators=np.tile(np.arange(OPERATORS), len(self.running)),
        )

    def apply(self, plan: Plan) -> None:
        """Move operators; each move pauses its query."""
        if plan.owner.shape != (len(self.running) * OPERATORS,):
            raise BalanceError("simulate.plan", "the plan is not for the operators that run")
        before = self.owner[self.running]
        owner = plan.owner.reshape(-1, OPERATORS)
        if len(plan.moves):
            moved = (owner != before) & (before != NEW)
            state = np.where(moved, self._loads()[:, MEMORY].reshape(-1, OPERATORS), 0.0)
            pauses_s = self.hosts.pause_s * moved + state / self.hosts.state_bytes_per_s
            self.pauses_s[self.running] += pauses_s.sum(axis=1)
            self.recorded["moves"][-1] += len(plan.moves)
            self.recorded["moved_bytes"][-1] += float(state.sum())
        self.owner[self.running] = owner
        self._switch_hosts()

    def pass_time(self, period: int) -> None:
        """Process a period's events, and measure."""
        day, some = self.day, self.running
        rates = day.rates_per_s[period]
        fresh = some[np.isnan(self.first_latency_s[some])]
        owner = self.owner[some]
        first_latency_s = self.first_latency_s[some]
        found = process(
            owner,
            self.host_s_per_event[some],
            day.event_s[some] * self.hosts.cores,  # one core works on an event
            rates,
            self.noise[period],
            self.hosts.hop_s,
            day.period_s / len(rates),
            self.pauses_s[some],
            self.backlog_s,
            first_latency_s,
        )
        self.first_latency_s[some] = first_latency_s
        self.pauses_s[:] = 0.0
        self.recorded["queries"].append(len(some))
        self.recorded["hosts"].append(int(np.count_nonzero(np.bincount(owner.ravel(), minlength=1))))
        for name, value in zip(
            ("utilisation", "highest_utilisation", "mean_ratio", "highest_ratio"), found, strict=True
        ):
            self.recorded[name].append(value)
        self.rate_per_s = float(rates.mean())
        self.expected_per_s = max(self.rate_per_s, _ahead(rates, day.period_s, self.foresight_s))
        self._learn(fresh)
        self.now_s += day.period_s

    def _loads(self) -> Float64Array:
        """(operators, 3) as last measured; of queries that did not run yet, as estimated."""
        some, day = self.running, self.day
        loads = np.zeros((len(some), OPERATORS, 3))
        loads[:, :, CPU] = self.host_s_per_event[some] * self.expected_per_s
        loads[:, WINDOW, MEMORY] = day.shares[some] * day.windows_s[some] * (self.rate_per_s * EVENT_BYTES)
        owner = self.owner[some]
        crossing = (owner[:, 1:] != owner[:, :-1]) * self.sent[some, :-1] * (self.rate_per_s * EVENT_BYTES)
        loads[:, 1:, NETWORK] += crossing
        loads[:, :-1, NETWORK] += crossing
        unknown = np.isnan(self.first_latency_s[some])
        loads[unknown] = self.estimates[some[unknown]]
        return loads.reshape(-1, 3)

    def _traffic(self) -> csr_array:
        """Bytes a second from each operator to the next one of its query."""
        from scipy.sparse import csr_array

        senders = np.flatnonzero(np.arange(len(self.running) * OPERATORS) % OPERATORS < OPERATORS - 1)
        sent = self.sent[self.running, :-1].ravel() * (max(self.rate_per_s, 1.0) * EVENT_BYTES)
        units = len(self.running) * OPERATORS
        return csr_array((sent, (senders, senders + 1)), shape=(units, units))

    def _learn(self, fresh: Int64Array) -> None:
        """Add the measurements of new operators to the model of their kind."""
        period_s, events = self.day.period_s, self.rate_per_s * self.day.period_s
        measured = [
            Measurement(
                f"{query} {kind}",
                kind,
                period_s,
                events_in=events * float(self.received[query, place]),
                events_out=events * float(self.sent[query, place]),
                busy_s=events * float(self.host_s_per_event[query, place]),
            )
            for query in fresh.tolist()
            for place, kind in enumerate(KINDS)
        ]
        # The system keeps the measured loads itself, in arrays; the model is used for new operators only.
        if measured:
            self.model = self.model.observe(measured).forget([one.name for one in measured])

    def _switch_hosts(self) -> None:
        """Start hosts while spares are missing, switch off hosts while there are too many."""
        used = np.bincount(self.owner[self.running].ravel() + 1, minlength=self.hosts.pool + 1)[1:] > 0
        spare = np.flatnonzero(~used & np.isfinite(self.ready_s))
        wanted = max(self.hosts.spares, 0 if used.any() else 1)
        if len(spare) < wanted:
            off = np.flatnonzero(np.isinf(self.ready_s))[: wanted - len(spare)]
            self.ready_s[off] = self.now_s + self.hosts.start_up_s
        else:  # first those that are still starting, then the last in order, as hosts are filled from the first on
            worst = sorted(spare.tolist(), key=lambda host: (self.ready_s[host] > self.now_s, host), reverse=True)
            self.ready_s[worst[: len(spare) - wanted]] = np.inf


def _ahead(rates_per_s: Float64Array, period_s: float, foresight_s: float) -> float:
    """The rate `foresight_s` after the end of a period, extrapolated from the period; without foresight its mean."""
    if not foresight_s or len(rates_per_s) < 2:
        return 0.0
    step_s = period_s / len(rates_per_s)
    slope, start = np.polyfit(np.arange(len(rates_per_s)) * step_s, rates_per_s, 1)
    return float(start + slope * (period_s + foresight_s))


def _seen_before(day: QueryDay) -> LoadModel:
    """What the model knows when the day begins: every kind has run, and a filter has passed the largest sector."""
    events = np.array([1.0, 1.0, day.shares.max(initial=0.0), day.shares.max(initial=0.0)])
    busy_s = events * day.event_s.mean(axis=0)
    passed = (1.0, float(events[WINDOW]), float(events[WINDOW]), 0.0)
    return LoadModel().observe(
        Measurement("before", kind, 1.0, float(events[place]), passed[place], float(busy_s[place]))
        for place, kind in enumerate(KINDS)
    )


def _template(query: int, window_s: float) -> tuple[StreamOperator, ...]:
    """The query as a graph; its sector's share of the stream isn't known before it runs."""
    source, keep, window, sink = (f"{query} {kind}" for kind in KINDS)
    return (
        StreamOperator(source, "source", stream="ticks", selectivity=1.0, event_bytes=EVENT_BYTES),
        StreamOperator(keep, "filter", inputs=(source,), event_bytes=EVENT_BYTES),
        StreamOperator(window, "window", inputs=(keep,), window_s=window_s, selectivity=1.0, event_bytes=EVENT_BYTES),
        StreamOperator(sink, "sink", inputs=(window,), selectivity=0.0, event_bytes=EVENT_BYTES),
    )
