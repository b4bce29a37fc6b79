"""`trimtab replay`: what a job's coordinator observed and decided, and what another policy would have decided."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trimtab.cli.intake_text import reference_text, value_text
from trimtab.cli.texts import text_table
from trimtab.control.intake import Held
from trimtab.deciding.policy import Balance, Measure, Scale
from trimtab.errors import InputError, StateError
from trimtab.planning.registry import POLICIES
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.inspect import folders_of

if TYPE_CHECKING:  # planners take a second to load: only when something is replayed
    from trimtab.cli.replay_report import Course, Line, Report
    from trimtab.deciding.decision_log import Entry

NOTHING = "none"
_SAME = {True: "yes", False: "NO", None: "can't tell"}
_NUMBERS: tuple[tuple[str, type, str], ...] = (
    ("max_rstd", float, "act above this deviation, in percent"),
    ("max_load_distance", float, "act when an engine is further than this from the mean, in percentage points"),
    ("patience", int, "for this many batches in a row"),
    ("period_batches", int, "at most once in this many batches"),
    ("period_s", float, "at most once in this many seconds"),
    ("max_moves", int, "how many key groups may move at once"),
    ("max_state_bytes", int, "how much state may move at once"),
    ("half_life_batches", float, "after this many batches a batch counts half"),
    ("min_gain", float, "the share of the deviation that a plan has to remove"),
)


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "replay",
        help="show what balanced a job, and what another policy would have done",
        description="Replay the coordinator's log of a checkpoint: what it observed and decided, a line each batch. "
        "With --balance or one of the numbers, what that policy would have done on the same loads is shown beside it. "
        "Nothing is changed, and the job may be running. docs/balancing.md explains the policies.",
    )
    parser.add_argument("checkpoint", help="the job's checkpoint: a path or a URI")
    parser.add_argument("--stream", metavar="STREAM", help="only this stream")
    parser.add_argument("--last", type=_positive, metavar="N", help="show only the last N batches")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    other = parser.add_argument_group("another policy", "what isn't given is as in the policy of the log's last batch")
    other.add_argument("--balance", metavar="NAME", help=f"{', '.join(POLICIES)}, or {NOTHING}: nothing moves")
    other.add_argument("--measure", choices=[each.value for each in Measure], help="what counts as load")
    for name, kind, meaning in _NUMBERS:
        other.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=meaning)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read the logs, replay and print them; return the exit status."""
    change = _change(options)
    logs = logs_of(Checkpoint.existing(options.checkpoint), options.stream)
    from trimtab.cli.replay_report import report

    reports = {stream: report(entries, change, options.last) for stream, entries in logs.items()}
    if options.json:
        print(json.dumps({"streams": {stream: _as_json(found) for stream, found in reports.items()}}, indent=2))
        return 0
    for number, (stream, found) in enumerate(reports.items()):
        print(("\n" if number else "") + _text(stream, found))
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it is 1 or more")
    return number


def _change(options: argparse.Namespace) -> dict[str, Any] | None:
    """The settings of another policy that the options ask for; None: no other policy."""
    names = ("measure", *(name for name, _, _ in _NUMBERS))
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.balance == NOTHING:
        if given:
            first = next(iter(given)).replace("_", "-")
            message = f"--{first} is about balancing, and --balance {NOTHING} turns balancing off"
            raise InputError("input.value", message, "leave one of them")
        return {"planner": None}
    if options.balance is not None:
        given["planner"] = options.balance
    if given:
        Balance(**given)  # raises for a mistake before a long log is read
    return given or None


def logs_of(checkpoint: Checkpoint, chosen: str | None) -> dict[str, list[Entry]]:
    """The log of each stream that has one."""
    from trimtab.deciding.decision_log import read

    streams = checkpoint.streams() if chosen is None else [chosen]
    logs = {stream: list(read(folders_of(checkpoint, stream).home.child("decisions"))) for stream in streams}
    found = {stream: entries for stream, entries in logs.items() if entries}
    if not found:
        what = "the checkpoint" if chosen is None else f"stream {chosen}"
        message = f"{what} has no log of a coordinator: {checkpoint.folder.shown}"
        hint = "a job with balance=None keeps none, nor does one before its first batch"
        raise StateError("state.log", message, hint)
    return found


# Text ----------------------------------------------------------------------------------------------


def _text(stream: str, found: Report) -> str:
    lines, steps = found.lines, found.logged.steps
    columns: dict[str, Any] = {
        "batch": [line.batch for line in lines],
        "events": [line.events for line in lines],
        "engines": [step.engines for step in steps],
        "RSTD %": [round(step.rstd, 1) for step in steps],
        "least": [round(line.least_rstd, 1) for line in lines],
        "used %": [round(step.utilisation) for step in steps],
        "moved": [step.moved for step in steps],
        "decided": [step.reason for step in steps],
        "again": [_SAME[line.same] for line in lines],
    }
    parts = [f"STREAM {stream}", f"policy: {policy_text(found.logged.balance, found.scale)}"]
    if limits := [line.intake for line in lines if line.intake is not None]:
        columns |= intake_columns(lines)
        parts.append(f"intake: {reference_text(limits[-1])}")
    if found.other is not None:
        others = found.other.steps
        if any(other.engines != step.engines for other, step in zip(others, steps, strict=True)):
            columns["its engines"] = [step.engines for step in others]
        columns |= {
            "its RSTD %": [round(step.rstd, 1) for step in others],
            "its moved": [step.moved for step in others],
            "it decides": [step.reason for step in others],
        }
        parts.append(f"beside it: {policy_text(found.other.balance, found.scale)}")
    parts += ["", text_table(pa.table(columns), limit=len(lines)).rpartition("\n")[0], ""]
    return "\n".join(parts + _summary(found))


def _summary(found: Report) -> list[str]:
    same = [line.same for line in found.lines]
    agreed = f"{len(same):,} batch{'' if len(same) == 1 else 'es'}; replayed, {same.count(True):,} are decided the same"
    if None in same:
        agreed += f" ({same.count(None):,} are unknown: the log begins in the middle of a run)"
    lines = [agreed]
    for name, course in (("as it was", found.logged), ("beside it", found.other)):
        if course is not None:
            sums = course.sums(found.threshold)
            lines.append(
                f"  {name:<9}  mean RSTD {sums['mean_rstd']:.1f} %, {sums['above']:,} above {found.threshold:g} %, "
                f"{sums['moved']:,} key group{'' if sums['moved'] == 1 else 's'} moved"
            )
    return lines


def intake_columns(lines: Sequence[Line]) -> dict[str, list[str]]:
    """What was measured of what the intake holds, how many rows the next batch might take, and how many waited."""
    limits = [line.intake for line in lines]
    measures = [None if each is None else each.measure for each in limits]
    return {
        "measured": [
            "" if each is None or measure is None else value_text(Held(each.held), measure)
            for each, measure in zip(limits, measures, strict=True)
        ],
        "limit": [
            "" if each is None else f"{each.rows:,}{' (a bound)' if each.is_saturated else ''}" for each in limits
        ],
        "waiting": ["" if line.backlog_rows is None else f"{line.backlog_rows:,}" for line in lines],
    }


def policy_text(balance: Balance | None, scale: Scale | None) -> str:
    """A policy in a line, for people.

    >>> policy_text(Balance(planner="flux", max_rstd=10.0), None)
    'flux by busy time, above RSTD 10 % for 2 batches, at most once in 3'
    """
    parts = ["nothing is balanced"]
    if balance is not None:
        measures = {Measure.BUSY: "busy time", Measure.EVENTS: "events", Measure.STATE: "state"}
        limits = [f"RSTD {balance.max_rstd:g} %"] if balance.max_rstd is not None else []
        limits += [f"load distance {balance.max_load_distance:g}"] if balance.max_load_distance is not None else []
        batches = f"{balance.patience} batch{'' if balance.patience == 1 else 'es'}"
        parts = [f"{balance.planner} by {measures[balance.measured]}"]
        parts.append(f"above {' or '.join(limits)} for {batches}" if limits else "never because of a deviation")
        parts.append(f"at most once in {balance.period_batches}")
        parts += [f"at most {balance.max_moves:,} moves"] if balance.max_moves is not None else []
    if scale is not None:
        parts.append(f"{scale.min_engines} to {scale.max_engines} engines")
    return ", ".join(parts)


# JSON ----------------------------------------------------------------------------------------------


def _as_json(found: Report) -> dict[str, Any]:
    logged = _course_as_json(found.logged, found.threshold)
    batches = [asdict(line) | step for line, step in zip(found.lines, logged["batches"], strict=True)]
    document = logged | {"scale": found.scale and found.scale.as_json(), "batches": batches}
    other = {} if found.other is None else {"other": _course_as_json(found.other, found.threshold)}
    return document | other


def _course_as_json(course: Course, threshold: float) -> dict[str, Any]:
    return {
        "balance": course.balance and course.balance.as_json(),
        "batches": [asdict(step) for step in course.steps],
        "summary": course.sums(threshold),
    }
