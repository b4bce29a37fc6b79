"""A log played again: the same policy must decide the same, another one shows what it would have done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from trimtab.deciding.actions import applied
from trimtab.deciding.coordinator import Coordinator, Decision
from trimtab.deciding.decision_log import Entry
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Scale


@dataclass(frozen=True, slots=True)
class Replayed:
    """One batch of the log, and what was decided in the replay.

    `seen`: the observation as the replayed policy had it, that is with its own placement.
    """

    entry: Entry
    seen: Observation
    decision: Decision


def replay(entries: Iterable[Entry]) -> Iterator[Replayed]:
    """Let the policies of the log decide again on what they saw."""
    coordinator: Coordinator | None = None
    for entry in entries:
        if coordinator is None or entry.is_first:
            coordinator = Coordinator(entry.balance, entry.scale, split=entry.split, interval_s=entry.interval_s)
        yield Replayed(entry, entry.seen, coordinator.step(entry.seen))


def replay_with(entries: Iterable[Entry], balance: Balance | None, scale: Scale | None = None) -> Iterator[Replayed]:
    """Let another policy decide on the same loads.

    It begins with the placement of the first entry and goes on with its own: loads follow their key groups. What an
    engine's task took is then its key groups' time, and hosts are taken to be equal.
    """
    coordinator: Coordinator | None = None
    placement: Placement | None = None
    for entry in entries:
        if coordinator is None or entry.is_first:
            coordinator = Coordinator(balance, scale, split=entry.split, interval_s=entry.interval_s)
        if placement is None or len(placement.owner) != len(entry.seen.placement.owner):
            placement = entry.seen.placement
        seen = _seen_with(entry.seen, placement)
        decision = coordinator.step(seen)
        yield Replayed(entry, seen, decision)
        placement = applied(decision.actions, placement)


def agrees(one: Replayed) -> bool:
    """Whether the replay decided what the log has."""
    logged = one.entry.decision
    planner = one.decision.planner if logged.planner else ""  # which older logs don't tell
    return replace(one.decision, reason="", planner=planner) == replace(logged, reason="")


def _seen_with(seen: Observation, placement: Placement) -> Observation:
    if placement == seen.placement:
        return seen
    spent = np.bincount(placement.array(), weights=seen.busy_ns, minlength=placement.engines).astype(np.int64)
    # The batch would have taken as much longer or shorter as its slowest engine.
    saved_s = (float(seen.engine_ns.max(initial=0)) - float(spent.max(initial=0))) / 1e9
    batch_s = max(seen.batch_s - saved_s, 1e-3)
    return replace(
        seen,
        placement=placement,
        batch_s=batch_s,
        span_s=max(seen.span_s, batch_s),
        engine_ns=spent,
        hosts=("",) * placement.engines,
    )
