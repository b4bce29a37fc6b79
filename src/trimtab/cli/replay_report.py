"""What a replay of the coordinator's log shows: a line for each batch, and sums over all of them. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from trimtab.deciding.coordinator import Decision
from trimtab.deciding.decision_log import Entry
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import DEFAULT, Balance, Scale
from trimtab.deciding.replay import Replayed, agrees, replay, replay_with
from trimtab.planning.heaviest_first import heaviest_first


@dataclass(frozen=True, slots=True)
class Step:
    """The state of a batch under one policy, and what the policy decided.

    `moved`: key groups that were elsewhere in the batch before. `rstd`: as `Decision` has it.
    """

    engines: int
    rstd: float
    utilisation: float
    moved: int
    reason: str


@dataclass(frozen=True, slots=True)
class Line:
    """One batch of the log.

    `same`: whether the replay decides what the log has; None: unknown, because the log begins in the middle
    of a run. `other`: what the other policy does, if there is one.
    """

    batch: int
    events: int
    least_rstd: float
    logged: Step
    same: bool | None
    other: Step | None


@dataclass(frozen=True, slots=True)
class Sums:
    """A policy's results over some batches."""

    mean_rstd: float
    above: int  # batches with a deviation above the threshold
    moved: int


@dataclass(frozen=True, slots=True)
class Report:
    """The replay of one stream's log. `threshold`: the sums' `above` counts deviations above it, in percent."""

    balance: Balance | None
    scale: Scale | None
    other: Balance | None
    has_other: bool
    threshold: float
    lines: tuple[Line, ...]
    logged: Sums
    compared: Sums | None


def report(entries: Sequence[Entry], change: dict[str, Any] | None = None, last: int | None = None) -> Report:
    """Replay a log of at least one entry, and report its `last` batches, by default all.

    `change`: the fields in which the other policy differs from the log's; {"planner": None}: it balances nothing;
    None: there is no other policy. Raises JobError `job.balance` if the other policy isn't valid.
    """
    balance, scale = entries[-1].balance, entries[-1].scale
    other = None if change is None else changed(balance, change)
    lines = _lines(entries, None if change is None else list(replay_with(entries, other, scale)))
    shown = lines if last is None else lines[-last:]
    rule = other or balance or DEFAULT
    threshold = DEFAULT.max_rstd if rule.max_rstd is None else rule.max_rstd
    assert threshold is not None
    return Report(
        balance=balance,
        scale=scale,
        other=other,
        has_other=change is not None,
        threshold=threshold,
        lines=tuple(shown),
        logged=_sums([line.logged for line in shown], threshold),
        compared=None if change is None else _sums([line.other for line in shown if line.other], threshold),
    )


def changed(balance: Balance | None, change: dict[str, Any]) -> Balance | None:
    """A policy with some fields changed; None counts as the default policy.

    >>> changed(Balance(max_rstd=5.0), {"planner": "flux"}) == Balance(planner="flux", max_rstd=5.0)
    True
    """
    if "planner" in change and change["planner"] is None:
        return None
    return replace(balance or DEFAULT, **change)


def _lines(entries: Sequence[Entry], others: Sequence[Replayed] | None) -> list[Line]:
    lines: list[Line] = []
    own: Placement | None = None
    theirs: Placement | None = None
    began = False
    for number, one in enumerate(replay(entries)):
        entry = one.entry
        began = began or entry.is_first
        same = agrees(one)
        step = None
        if others is not None:
            other = others[number]
            step, theirs = _step(other, theirs), other.observed.placement
        lines.append(
            Line(
                batch=entry.observed.batch,
                events=int(entry.observed.events.sum()),
                least_rstd=entry.decision.least_rstd,
                logged=_step(Replayed(entry, entry.observed, entry.decision), own),
                same=same if same or began else None,
                other=step,
            )
        )
        own = entry.observed.placement
    return lines


def _reason(decision: Decision) -> str:
    """The reason, and the planner if it wasn't the policy's own, which wasn't compiled yet."""
    plain = heaviest_first.__name__
    return f"{decision.reason} ({plain})" if decision.planner == plain else decision.reason


def _step(one: Replayed, before: Placement | None) -> Step:
    placement = one.observed.placement
    comparable = before is not None and len(before.owner) == len(placement.owner)
    return Step(
        engines=placement.engines,
        rstd=one.decision.rstd,
        utilisation=one.decision.utilisation,
        moved=placement.moves_from(before) if comparable and before is not None else 0,
        reason=_reason(one.decision),
    )


def _sums(steps: Iterable[Step], threshold: float) -> Sums:
    found = list(steps)
    return Sums(
        mean_rstd=fmean(step.rstd for step in found) if found else 0.0,
        above=sum(step.rstd > threshold for step in found),
        moved=sum(step.moved for step in found),
    )
