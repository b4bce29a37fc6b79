"""Coordinators that change something in nearly every batch, for the laws: an eager one and a random one."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from tests.support.choices import Choices, SeededChoices, between, chance, one_of
from tests.support.spreads import spread_over
from trimtab.control.intake import Intake
from trimtab.deciding import balancer, decision_log
from trimtab.deciding.actions import Action, AddEngines, DropEngines, Move, SpreadKeys, applied
from trimtab.deciding.coordinator import Decision, Limited
from trimtab.deciding.decision_log import Entry
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Measure, Scale
from trimtab.planning.registry import POLICIES
from trimtab.spark import pipeline
from trimtab.state.files import Folder

LONG_S = 60.0
"""Longer than any decision of a test takes."""


def eager_balance(choices: Choices, *, measures: tuple[Measure, ...] = tuple(Measure)) -> Balance:
    """A policy that moves something whenever it can."""
    return Balance(
        planner=one_of(choices, *POLICIES),
        measure=one_of(choices, *measures),
        max_rstd=float(between(choices, 0, 5)),
        patience=1,
        period_batches=1,
        min_gain=0.0,
        time_limit_s=LONG_S,  # so that its log replays on a busy machine, too; the effort is limited otherwise
    )


def nervous_scale(choices: Choices, most_engines: int) -> Scale:
    """A rule that always wants fewer engines, or more: every batch is much too short or too long for it."""
    interval_s = one_of(choices, 0.001, 1000.0)
    return Scale(max_engines=most_engines, cool_down_batches=0, cool_down_s=0.0, interval_s=interval_s)


def random_actions(choices: Choices, placement: Placement, most_engines: int) -> tuple[Action, ...]:
    """Any actions that can be carried out on a placement. Each kind of change is one of `CHANGES`."""
    actions: list[Action] = []
    for change in CHANGES:
        if chance(choices, 50):
            found = change(choices, placement, most_engines)
            actions += found
            placement = applied(found, placement)
    return tuple(actions)


def _more_engines(choices: Choices, placement: Placement, most_engines: int) -> list[Action]:
    room = most_engines - placement.engines
    return [AddEngines(between(choices, 1, room))] if room > 0 else []


def _some_moves(choices: Choices, placement: Placement, _most_engines: int) -> list[Action]:
    groups = range(len(placement.owner))
    moves = {group: choices.below(placement.engines) for group in groups if chance(choices, 40)}
    moves = {group: engine for group, engine in moves.items() if placement.owner[group] != engine}
    return [Move(moves)] if moves else []


def _fewer_engines(choices: Choices, placement: Placement, _most_engines: int) -> list[Action]:
    if placement.engines < 2:
        return []
    last = placement.engines - 1
    moves = {group: choices.below(last) for group, engine in enumerate(placement.owner) if engine == last}
    return [*([Move(moves)] if moves else []), DropEngines(1)]


CHANGES: tuple[Callable[[Choices, Placement, int], list[Action]], ...] = (_more_engines, _some_moves, _fewer_engines)


def _random_spread(choices: Choices, seen: Observation, engines: int) -> tuple[Action, ...]:
    """Spread some of the hot keys over some engines, and gather the others."""
    slots = [slot for slot in seen.hot.slots.tolist() if chance(choices, 60)]
    spread = [spread_over(slot, sorted({choices.below(engines) for _ in range(3)})) for slot in slots]
    return (SpreadKeys(tuple(spread)),)


class RandomCoordinator:
    """Decides at random, by a seed and the batch only; used instead of a `Coordinator`. It limits no intake."""

    plans = True
    limit = intake = intake_state = None

    def __init__(
        self, balance: Balance | None, scale: Scale | None, split: str | None, interval_s: float, seed: int, most: int
    ) -> None:
        self.balance, self.scale, self.split, self.interval_s = balance, scale, split, interval_s
        self._seed, self._most = seed, most

    def limited(self, _seen: Observation) -> Limited:
        """No limit."""
        return None, ()

    def placed(self, seen: Observation, _limited: Limited) -> Decision:
        """Random actions."""
        choices = SeededChoices(self._seed + seen.batch)
        actions = random_actions(choices, seen.placement, self._most)
        if self.split is not None:
            actions += _random_spread(choices, seen, applied(actions, seen.placement).engines)
        return Decision(seen.batch, 0.0, 0.0, 0.0, 0.0, None, "the dice said so", actions)

    def warm(self) -> None:
        """Do nothing."""


@contextmanager
def decided_by_dice(seed: int, most_engines: int) -> Iterator[None]:
    """Jobs that are started inside the block get a `RandomCoordinator` instead of a `Coordinator`."""

    def made(
        balance: Balance | None, scale: Scale | None, *, split: str | None, interval_s: float, intake: Intake | None
    ) -> RandomCoordinator:
        assert intake is None, "Spark reads the streams of these laws"
        return RandomCoordinator(balance, scale, split, interval_s, seed, most_engines)

    usual = vars(pipeline)["Coordinator"]
    vars(pipeline)["Coordinator"] = made
    try:
        yield
    finally:
        vars(pipeline)["Coordinator"] = usual


@contextmanager
def decisions_awaited() -> Iterator[None]:
    """Make batches wait for decisions, so that the number carried out doesn't depend on how busy the machine is."""
    usual, balancer.HOLD_S = balancer.HOLD_S, LONG_S
    try:
        yield
    finally:
        balancer.HOLD_S = usual


def logs(checkpoint: Path) -> Iterator[list[Entry]]:
    """The coordinators' logs in a checkpoint, one for each stream."""
    for folder in sorted(checkpoint.glob("streams/*/decisions")):
        yield list(decision_log.read(Folder(str(folder))))


def carried_out(entries: Iterable[Entry]) -> collections.Counter[str]:
    """The decisions of a log that were carried out, and not replaced by the user: moves, engines added and dropped."""
    found: collections.Counter[str] = collections.Counter()
    for now, then in pairwise(entries):
        actions = now.decision.actions
        if not actions or applied(actions, now.observed.placement) != then.observed.placement:
            continue
        for action in actions:
            match action:
                case AddEngines(count):
                    found["added"] += count
                case DropEngines(count):
                    found["dropped"] += count
                case Move(moves):
                    found["moved"] += len(moves)
                case _:
                    pass
    return found
