"""Load model: the loads of operators, estimated before they run and measured once they do.

A `LoadModel` never changes; `observe` and `forget` return a new one. It places nothing.
References: Heinze (2013), section 3; Viglas and Naughton (2002) for rates from selectivities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.planning.problem import Float64Array

CPU, MEMORY, NETWORK = 0, 1, 2
"""The columns of the loads: seconds of work a second, bytes of state, bytes a second sent and received."""


@dataclass(frozen=True, slots=True)
class StreamOperator:
    """One operator of a query, as it is described before it runs.

    name         what it is called; no two operators share one
    kind         its type: operators of one kind are assumed to need about the same time for an event
    inputs       names of the operators it reads; none: it is a source
    stream       the stream that a source reads
    selectivity  events sent for each event received, if known; None: the largest measured of its kind
    window_s     how long it keeps events
    event_bytes  the average size of an event it sends
    """

    name: str
    kind: str
    inputs: tuple[str, ...] = ()
    stream: str = ""
    selectivity: float | None = None
    window_s: float = 0.0
    event_bytes: float = 100.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one operator did in a period."""

    name: str
    kind: str
    period_s: float
    events_in: float
    events_out: float
    busy_s: float
    state_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class KindHistory:
    """The totals of all operators of a kind that ran: for estimates of the next one."""

    events: float = 0.0
    busy_s: float = 0.0
    largest_selectivity: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Estimates of the worst case, replaced by measurements as they come in.

    most_events_per_s  the highest rate of each stream so far
    kinds              what is known of each kind of operator
    measured           the last measurement of each operator that runs
    unseen_event_s     what an event costs an operator of a kind that never ran

    >>> query = (
    ...     StreamOperator("ticks", "source", stream="exchange"),
    ...     StreamOperator("steel", "filter", inputs=("ticks",)),
    ...     StreamOperator("average", "window", inputs=("steel",), window_s=10.0),
    ... )
    >>> model = LoadModel().observe(rates_per_s={"exchange": 500.0}).observe(rates_per_s={"exchange": 400.0})
    >>> model = model.observe([Measurement("old", "filter", 10.0, events_in=1000, events_out=200, busy_s=0.5)])
    >>> model.estimate(query)[:, CPU].round(3).tolist()  # 500 events a second; a fifth of them passes the filter
    [0.5, 0.25, 0.1]
    >>> model.estimate(query)[:, MEMORY].tolist()
    [0.0, 0.0, 100000.0]
    """

    most_events_per_s: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, KindHistory] = field(default_factory=dict)
    measured: Mapping[str, Measurement] = field(default_factory=dict)
    unseen_event_s: float = 1e-3

    def observe(
        self, measurements: Iterable[Measurement] = (), *, rates_per_s: Mapping[str, float] | None = None
    ) -> LoadModel:
        """The model after a period, with measurements of operators and rates of streams."""
        most, kinds, measured = dict(self.most_events_per_s), dict(self.kinds), dict(self.measured)
        for stream, rate in (rates_per_s or {}).items():
            most[stream] = max(rate, most.get(stream, 0.0))
        for one in measurements:
            if not one.period_s > 0:
                raise BalanceError("plan.period", f"{one.name} was measured for {one.period_s} s", "more than 0 s")
            measured[one.name] = one
            history = kinds.get(one.kind, KindHistory())
            share = one.events_out / one.events_in if one.events_in > 0 else 0.0
            kinds[one.kind] = KindHistory(
                history.events + one.events_in, history.busy_s + one.busy_s, max(history.largest_selectivity, share)
            )
        return replace(self, most_events_per_s=most, kinds=kinds, measured=measured)

    def forget(self, names: Iterable[str]) -> LoadModel:
        """The model after operators have ended. The totals of their kind stay."""
        gone = set(names)
        return replace(self, measured={name: one for name, one in self.measured.items() if name not in gone})

    def event_s(self, kind: str) -> float:
        """The mean processing time of an event in operators of a kind, running or ended."""
        history = self.kinds.get(kind)
        return history.busy_s / history.events if history and history.events > 0 else self.unseen_event_s

    def estimate(self, operators: Sequence[StreamOperator], owner: npt.ArrayLike | None = None) -> Float64Array:
        """The loads of each operator: (operators, 3), the columns CPU, MEMORY and NETWORK.

        operators  all operators of some queries; an operator's inputs are among them
        owner      the node of each, or -1: between operators on one node nothing crosses the network; None: the
                   worst case, every event does

        CPU is the processing time of an event times the input rate (equation 1), memory the bytes a second of the input
        times the window, network what is received and sent. An operator that was measured counts as measured, and
        what follows it in the graph is estimated from its measured output.
        """
        place = {one.name: index for index, one in enumerate(operators)}
        nodes = np.full(len(operators), -1) if owner is None else np.asarray(owner)
        if nodes.shape != (len(operators),):
            raise BalanceError("plan.shape", f"{len(operators)} operators and {nodes.size} owners")
        loads = np.zeros((len(operators), 3))
        out_per_s = np.zeros(len(operators))
        for index in _inputs_first(operators, place):
            one = operators[index]
            sources = [place[name] for name in one.inputs]
            in_per_s, kept, out_per_s[index] = self._rates(one, [(out_per_s[s], operators[s]) for s in sources])
            last = self.measured.get(one.name)
            loads[index, CPU] = self.event_s(one.kind) * in_per_s if last is None else last.busy_s / last.period_s
            loads[index, MEMORY] = kept if last is None else last.state_bytes
            for source in sources:
                if nodes[source] < 0 or nodes[source] != nodes[index]:
                    sent = out_per_s[source] * operators[source].event_bytes
                    loads[source, NETWORK] += sent
                    loads[index, NETWORK] += sent
        return loads

    def _rates(self, one: StreamOperator, inputs: Sequence[tuple[float, StreamOperator]]) -> tuple[float, float, float]:
        """Events in a second, bytes of state, events out a second."""
        if inputs:
            in_per_s = float(sum(rate for rate, _ in inputs))
            bytes_per_s = float(sum(rate * source.event_bytes for rate, source in inputs))
        else:
            in_per_s = self.most_events_per_s.get(one.stream, 0.0)
            bytes_per_s = in_per_s * one.event_bytes
        last, kind = self.measured.get(one.name), self.kinds.get(one.kind)
        if last is not None:
            return last.events_in / last.period_s, last.state_bytes, last.events_out / last.period_s
        share = one.selectivity
        if share is None:
            share = kind.largest_selectivity if kind is not None and kind.events > 0 else 1.0
        return in_per_s, bytes_per_s * one.window_s, in_per_s * share


def _inputs_first(operators: Sequence[StreamOperator], place: Mapping[str, int]) -> list[int]:
    """Indices so that every operator comes after those it reads."""
    if len(place) < len(operators):
        raise BalanceError("plan.graph", "two operators have the same name", "give each its own")
    order: list[int] = []
    waiting = [len(one.inputs) for one in operators]
    readers: list[list[int]] = [[] for _ in operators]
    for index, one in enumerate(operators):
        for name in one.inputs:
            if name not in place:
                raise BalanceError("plan.graph", f"{one.name} reads {name}, which is not among the operators")
            readers[place[name]].append(index)
    ready = [index for index, left in enumerate(waiting) if left == 0]
    while ready:
        index = ready.pop()
        order.append(index)
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) < len(operators):
        raise BalanceError("plan.graph", "operators read each other in a circle", "a query is a graph without circles")
    return order
