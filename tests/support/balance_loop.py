"""A coordinator and a simulated stream in a closed loop: its decisions place the key groups of the next batch.

No Spark, and simulated time: batches of any cost on executors of any speed, thousands in a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trimtab.deciding.actions import Action, AddEngines, DrainEngine, DropEngines, Move, applied
from trimtab.deciding.coordinator import Coordinator, Decision
from trimtab.deciding.observation import Float64Array, Observation
from trimtab.deciding.placement import Placement

EVENT_NS = 1_000_000.0
"""The default cost of an event at speed 1."""


@dataclass(slots=True)
class BalanceLoop:
    """Batches of a stream, each observed by a coordinator, whose actions are carried out before the next one.

    coordinator  decides
    placement    of the next batch
    speeds       of the executors by name; engines are dealt out to them in turn
    event_ns     (groups,) what an event of each key group costs at speed 1
    overhead_s   what a batch takes in addition to its slowest engine
    interval_s   how often a batch is begun; one that takes longer delays the next
    noise        busy times are off by up to this share, at random
    """

    coordinator: Coordinator
    placement: Placement
    speeds: Mapping[str, float] = field(default_factory=lambda: {"": 1.0})
    event_ns: Float64Array | None = None
    overhead_s: float = 0.1
    interval_s: float = 1.0
    noise: float = 0.0
    seed: int = 0
    observed: list[Observation] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    _dice: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        """Make the random generator from the seed."""
        self._dice = np.random.default_rng(self.seed)

    def batch(self, events: npt.ArrayLike, *, state_bytes: npt.ArrayLike | None = None) -> Decision:
        """Run one batch with these events by key group; return what is decided on it."""
        observed = self.observation(np.asarray(events, np.int64), state_bytes)
        decision = self.coordinator.step(observed)
        self.observed.append(observed)
        self.decisions.append(decision)
        self.placement = applied(decision.actions, self.placement)
        return decision

    def run(self, events: npt.ArrayLike, batches: int) -> list[Decision]:
        """Run `batches` equal batches."""
        return [self.batch(events) for _ in range(batches)]

    def observation(self, events: npt.NDArray[np.int64], state_bytes: npt.ArrayLike | None = None) -> Observation:
        """What the engines would report about a batch with the present placement."""
        owner, executors = self.placement.array(), self.executors
        costs = EVENT_NS if self.event_ns is None else self.event_ns
        off = 1.0 + self.noise * self._dice.uniform(-1.0, 1.0, len(events))
        speed = np.array([self.speeds[executor] for executor in executors])[owner]
        busy = np.rint(events * costs * off / speed).astype(np.int64)
        engine_ns = np.bincount(owner, weights=busy, minlength=self.placement.engines).astype(np.int64)
        batch_s = self.overhead_s + float(engine_ns.max()) / 1e9
        return Observation(
            batch=len(self.observed),
            span_s=max(self.interval_s, batch_s),
            batch_s=batch_s,
            placement=self.placement,
            events=events,
            busy_ns=busy,
            state_bytes=np.zeros(len(events), np.int64) if state_bytes is None else np.asarray(state_bytes, np.int64),
            engine_ns=engine_ns,
            executors=executors,
        )

    @property
    def executors(self) -> tuple[str, ...]:
        """The executor of each engine."""
        names = list(self.speeds)
        return tuple(names[engine % len(names)] for engine in range(self.placement.engines))

    def utilisations(self, events: npt.ArrayLike) -> Float64Array:
        """By engine: the percentage of the interval that such a batch would take, as key groups are placed now."""
        costs = EVENT_NS if self.event_ns is None else self.event_ns
        work = np.bincount(self.placement.array(), weights=np.asarray(events) * costs, minlength=self.placement.engines)
        speed = np.array([self.speeds[executor] for executor in self.executors])
        return np.asarray(100.0 * work / 1e9 / speed / self.interval_s)

    def rstd(self, events: npt.ArrayLike) -> float:
        """The relative standard deviation of the engines' busy times, in percent, as they are placed now."""
        level = self.utilisations(events)
        return 100.0 * float(level.std()) / float(level.mean()) if level.mean() > 0 else 0.0


def moved_groups(decision: Decision) -> Mapping[int, int]:
    """The key groups that a decision moves, with their new engines."""
    return {
        group: engine
        for action in decision.actions
        if isinstance(action, Move)
        for group, engine in action.moves.items()
    }


def faults(actions: Sequence[Action], placement: Placement, *, min_engines: int, max_engines: int) -> list[str]:
    """What is wrong with actions on a placement, as sentences; empty if nothing is."""
    found = []
    draining: set[int] = set()
    for action in actions:
        engines = placement.engines
        match action:
            case AddEngines(count) | DropEngines(count) if count < 1:
                found.append(f"{count} engines come or go")
            case DrainEngine(engine):
                draining.add(engine)
            case Move(moves):
                known = all(0 <= g < len(placement.owner) and 0 <= e < engines for g, e in moves.items())
                found += [] if known and moves else ["a move of no group, or of a group that doesn't exist"]
                found += [f"group {g} is on {e} already" for g, e in moves.items() if known and placement.owner[g] == e]
                found += ["something moves to an engine that is emptied"] if draining & set(moves.values()) else []
            case DropEngines(count):
                left = engines - count
                found += ["an engine is dropped that isn't empty"] if max(placement.owner) >= left else []
        if found:
            return found
        placement = applied([action], placement)
    if actions and not min_engines <= placement.engines <= max_engines:
        found.append(f"{placement.engines} engines, and {min_engines} to {max_engines} are allowed")
    return found


def engine_changes(decisions: Sequence[Decision]) -> list[int]:
    """The engines that were added (above 0) or removed (below 0), change by change."""
    found = []
    for decision in decisions:
        added = sum(action.count for action in decision.actions if isinstance(action, AddEngines))
        drained = sum(isinstance(action, DrainEngine) for action in decision.actions)
        found += [added] if added else []
        found += [-drained] if drained else []
    return found
