"""Replays a log: the same policy must decide the same; another one shows what it would have done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from trimtab.deciding.actions import applied
from trimtab.deciding.coordinator import Coordinator, Decision
from trimtab.deciding.decision_log import Entry
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Scale

SAME_SHARE = 1e-6
"""Up to this difference shares are the same: another processor or NumPy solves equations with other last digits."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One batch of the log, and what the replay decided.

    `observed`: the observation that the replayed policy got, with its own placement.
    """

    entry: Entry
    observed: Observation
    decision: Decision


def replay(entries: Iterable[Entry]) -> Iterator[Replayed]:
    """Let the policies of the log decide again on the same observations."""
    for entry, coordinator in _coordinated(entries, lambda entry: (entry.balance, entry.scale)):
        yield Replayed(entry, entry.observed, coordinator.step(entry.observed))


def replay_with(entries: Iterable[Entry], balance: Balance | None, scale: Scale | None = None) -> Iterator[Replayed]:
    """Let another policy decide on the same loads.

    It starts from the placement of the first entry and then uses its own: loads follow their key groups. The time of an
    engine's task is then the sum of its key groups' times, and all executors are taken to be equally fast.
    """
    placement: Placement | None = None
    for entry, coordinator in _coordinated(entries, lambda _: (balance, scale)):
        if placement is None or len(placement.owner) != len(entry.observed.placement.owner):
            placement = entry.observed.placement
        observed = _observed_with(entry.observed, placement)
        decision = coordinator.step(observed)
        yield Replayed(entry, observed, decision)
        placement = applied(decision.actions, placement)


def agrees(one: Replayed) -> bool:
    """Whether the replay decided what the log has."""
    logged = one.entry.decision
    planner = one.decision.planner if logged.planner else ""  # older logs don't have it
    plain, shares = _parts(replace(one.decision, planner=planner))
    logged_plain, logged_shares = _parts(logged)
    return (
        plain == logged_plain
        and shares.keys() == logged_shares.keys()
        and all(abs(share - logged_shares[name]) <= SAME_SHARE for name, share in shares.items())
    )


def _parts(decision: Decision) -> tuple[Decision, Mapping[str, float]]:
    """A decision without texts and shares of the reading, and these shares."""
    if decision.intake is None:
        return replace(decision, reason=""), {}
    return replace(decision, reason="", intake=replace(decision.intake, reason="", shares={})), decision.intake.shares


def _coordinated(
    entries: Iterable[Entry], policy: Callable[[Entry], tuple[Balance | None, Scale | None]]
) -> Iterator[tuple[Entry, Coordinator]]:
    """Each entry with a coordinator of this policy. The intake is limited as it was, by what was known then."""
    coordinator: Coordinator | None = None
    newest = -1
    for entry in entries:
        if coordinator is None or entry.is_first:
            coordinator = Coordinator(
                *policy(entry),
                split=entry.split,
                interval_s=entry.interval_s,
                intake=entry.intake,
                intake_state=entry.intake_state,
            )
        elif entry.observed.batch != newest + 1:  # a planner failed or was late; the intake was limited all the same
            coordinator.intake_state = entry.intake_state
        newest = entry.observed.batch
        yield entry, coordinator


def _observed_with(observed: Observation, placement: Placement) -> Observation:
    if placement == observed.placement:
        return observed
    spent = np.bincount(placement.array(), weights=observed.busy_ns, minlength=placement.engines).astype(np.int64)
    # The batch would have taken longer or shorter by as much as its slowest engine.
    saved_s = (float(observed.engine_ns.max(initial=0)) - float(spent.max(initial=0))) / 1e9
    batch_s = max(observed.batch_s - saved_s, 1e-3)
    return replace(
        observed,
        placement=placement,
        batch_s=batch_s,
        span_s=max(observed.span_s, batch_s),
        engine_ns=spent,
        executors=("",) * placement.engines,
    )
