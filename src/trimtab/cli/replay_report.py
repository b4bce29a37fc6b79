"""What a replay of the coordinator's log shows: a line for each batch, and what policies did in it. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from trimtab.control.intake import IntakeLimit
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
    """One batch of the log; `intake` is how many rows the next one might take, if that was limited.

    `backlog_rows`: how many rows waited; None: that isn't known.

    `same`: whether the replay decides what the log has; None: unknown, because the log begins in the middle of a run.
    """

    batch: int
    events: int
    least_rstd: float
    same: bool | None
    intake: IntakeLimit | None = None
    backlog_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """What one policy did: a step for each batch."""

    balance: Balance | None
    steps: Sequence[Step]

    def sums(self, threshold: float) -> dict[str, float]:
        """Its results over all batches; `above` counts those with a deviation above the threshold, in percent."""
        return {
            "mean_rstd": fmean(step.rstd for step in self.steps),
            "above": sum(step.rstd > threshold for step in self.steps),
            "moved": sum(step.moved for step in self.steps),
            "threshold": threshold,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The replay of one stream's log: what was logged, and what another policy would have done, if there is one."""

    scale: Scale | None
    threshold: float
    lines: Sequence[Line]
    logged: Course
    other: Course | None = None


def report(entries: Sequence[Entry], change: dict[str, Any] | None = None, last: int | None = None) -> Report:
    """Replay a log of at least one entry, and report its `last` batches, by default all.

    `change`: the fields in which the other policy differs from the log's; {"planner": None}: it balances nothing;
    None: there is no other policy. Raises JobError `job.balance` if the other policy isn't valid.
    """
    balance, scale = entries[-1].balance, entries[-1].scale
    shown = slice(None if last is None else -last, None)
    logged = (Replayed(entry, entry.observed, entry.decision) for entry in entries)
    courses = [Course(balance, _steps(logged)[shown])]
    if change is not None:
        other = changed(balance, change)
        courses.append(Course(other, _steps(replay_with(entries, other, scale))[shown]))
    rule = courses[-1].balance or balance or DEFAULT
    threshold = DEFAULT.max_rstd if rule.max_rstd is None else rule.max_rstd
    assert threshold is not None
    return Report(scale, threshold, _lines(entries)[shown], *courses)


def changed(balance: Balance | None, change: dict[str, Any]) -> Balance | None:
    """A policy with some fields changed; None counts as the default policy.

    >>> changed(Balance(max_rstd=5.0), {"planner": "flux"}) == Balance(planner="flux", max_rstd=5.0)
    True
    """
    if "planner" in change and change["planner"] is None:
        return None
    return replace(balance or DEFAULT, **change)


def _lines(entries: Sequence[Entry]) -> list[Line]:
    lines: list[Line] = []
    began = False
    for one in replay(entries):
        observed, same = one.entry.observed, agrees(one)
        began = began or one.entry.is_first
        known = same if same or began else None
        events, decision = int(observed.events.sum()), one.entry.decision
        backlog = None if observed.intake is None else observed.intake.backlog_rows
        lines.append(Line(observed.batch, events, decision.least_rstd, known, decision.intake, backlog))
    return lines


def _steps(replayed: Iterable[Replayed]) -> list[Step]:
    steps: list[Step] = []
    before: Placement | None = None
    for one in replayed:
        placement, decision = one.observed.placement, one.decision
        is_comparable = before is not None and len(before.owner) == len(placement.owner)
        moved = placement.moves_from(before) if is_comparable and before is not None else 0
        steps.append(Step(placement.engines, decision.rstd, decision.utilisation, moved, _reason(decision)))
        before = placement
    return steps


def _reason(decision: Decision) -> str:
    """The reason, and the planner if it wasn't the policy's own, which wasn't compiled yet."""
    plain = heaviest_first.__name__
    return f"{decision.reason} ({plain})" if decision.planner == plain else decision.reason
