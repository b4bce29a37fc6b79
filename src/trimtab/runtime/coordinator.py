"""The coordinator: what the engines reported in, what should change out. No I/O, no clock, no Spark.

Its answers depend on nothing but the observations so far, so that a log of them can be played again, with the same
policy or with another one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem
from trimtab.runtime.balance import Balance, Measure
from trimtab.runtime.observation import Float64Array, Observation


@dataclass(frozen=True, slots=True)
class Move:
    """Key groups go to other engines from the next batch on."""

    moves: Mapping[int, int]


Action = Move


@dataclass(frozen=True, slots=True)
class Decision:
    """What the coordinator saw in a batch, and what it made of it.

    rstd      the relative standard deviation of the engines' smoothed loads, in percent
    planned   what it would be after the plan; None if there was none
    reason    in words, for people
    """

    batch: int
    rstd: float
    planned: float | None
    reason: str
    actions: tuple[Action, ...] = ()


@dataclass(slots=True)
class _Memory:
    loads: Float64Array | None = None
    state_bytes: Float64Array | None = None
    above: int = 0  # batches in a row above the threshold
    batches_since: int | None = None  # since the last action; None: there was none
    seconds_since: float = 0.0
    engines: int = field(default=0)


class Coordinator:
    """Watches one stream's batches.

    >>> from trimtab.runtime.placement import Placement
    >>> coordinator = Coordinator(Balance(planner="flux", measure=Measure.EVENTS, patience=1))
    >>> seen = Observation.of_events(0, Placement.even(2, 4), [90, 10, 60, 10])
    >>> coordinator.step(seen).actions
    (Move(moves={2: 1}),)
    """

    def __init__(self, policy: Balance) -> None:
        self.policy = policy
        self._plan = _planner(policy)
        self._memory = _Memory()

    def step(self, seen: Observation) -> Decision:
        """Take a batch in, and say what should change; called for every batch, in order."""
        memory, policy = self._memory, self.policy
        self._smooth(seen)
        if memory.batches_since is not None:
            memory.batches_since += 1
            memory.seconds_since += seen.span_s
        problem = self._problem(seen)
        rstd = problem.rstd(problem.homes)
        memory.above = memory.above + 1 if rstd > policy.threshold else 0
        if not memory.above:
            return Decision(seen.batch, rstd, None, "level enough")
        if memory.above < policy.patience:
            return Decision(seen.batch, rstd, None, f"uneven for {memory.above} of {policy.patience} batches")
        if not self._rested():
            return Decision(seen.batch, rstd, None, "moved something a short while ago")
        plan = self._plan(problem)
        if not len(plan.moves) or plan.rstd > rstd * (1 - policy.min_gain):
            self._rest()
            return Decision(seen.batch, rstd, plan.rstd, "uneven, and no move would help")
        self._rest()
        moves = {int(group): int(plan.owner[group]) for group in plan.moves}
        return Decision(seen.batch, rstd, plan.rstd, f"{len(moves)} key groups move", (Move(moves),))

    def _smooth(self, seen: Observation) -> None:
        memory = self._memory
        loads = _measured(seen, self.policy.measure)
        written = seen.state_bytes.astype(np.float64)
        if memory.loads is None or len(memory.loads) != len(loads) or memory.state_bytes is None:
            memory.loads, memory.state_bytes = loads, written
            return
        old = 0.5 ** (1.0 / self.policy.half_life_batches)
        memory.loads = old * memory.loads + (1 - old) * loads
        # A batch writes the state of the keys that it touched: the group's is at least that.
        memory.state_bytes = np.maximum(written, memory.state_bytes * 0.99)

    def _problem(self, seen: Observation) -> Problem:
        memory, policy = self._memory, self.policy
        assert memory.loads is not None
        groups = len(seen.placement.owner)
        return Problem(
            loads=memory.loads,
            homes=seen.placement.array(),
            capacities=np.full(seen.placement.engines, 100.0),
            state_bytes=memory.state_bytes,
            max_moves=max(1, groups // 4) if policy.max_moves is None else policy.max_moves,
            max_cost=policy.max_state_bytes,
        )

    def _rested(self) -> bool:
        memory, policy = self._memory, self.policy
        if memory.batches_since is None:
            return True
        return memory.batches_since >= policy.period_batches and memory.seconds_since >= policy.period_s

    def _rest(self) -> None:
        self._memory.batches_since, self._memory.seconds_since, self._memory.above = 0, 0.0, 0


def _measured(seen: Observation, measure: Measure) -> Float64Array:
    """Loads as a percentage of one engine's time, or as plain amounts."""
    match measure:
        case Measure.BUSY:
            return seen.busy_ns / (max(seen.span_s, 1e-9) * 1e7)
        case Measure.EVENTS:
            return seen.events.astype(np.float64)
        case Measure.STATE:
            return seen.state_bytes.astype(np.float64)


def _planner(policy: Balance) -> Callable[[Problem], Plan]:
    """The planner of that name, loaded when it is first needed: solvers take their time."""
    name, _, variant = policy.planner.partition("-")
    function = getattr(importlib.import_module(f"trimtab.planning.{name}"), name)
    match name:
        case "dlb":
            return partial(function, policy=variant, theta=policy.threshold)
        case "milp" | "albic":
            return partial(function, time_limit_s=policy.time_limit_s)
        case _:
            return partial(function)
