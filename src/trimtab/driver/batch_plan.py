"""A batch's plan: what it is going to do, decided and written to disk before the batch has any effect outside.

The output of a batch depends only on its plan, on the state before it and on its rows. So a batch that is repeated
after a crash follows the plan of its first try, under the same number, and gives the same rows, even if queries, the
delay, the engines or the placement were changed in between. Such changes wait for the next batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from trimtab.deciding.placement import Placement
from trimtab.engine.columns.watermark import BatchTime, Silence, StreamTime, TimeRule
from trimtab.engine.operator import MAX_THREADS
from trimtab.errors import StateError
from trimtab.sources.source import Range
from trimtab.state.files import Folder
from trimtab.state.manifest import manifest_name, seal, unseal

FORMAT = 3
"""The newest format that can be read. With 2 came partitions, silence and the limit of how far ahead a row may be;
with 3 the ranges of trimtab's own sources."""

_OPTIONAL = ("partition_by", "max_ahead_us", "max_threads", "keep_original", "source")
"""What plans of older builds may lack in their setup."""


@dataclass(frozen=True, slots=True)
class QuerySetup:
    """A query as a batch runs it: its text, the fingerprint of its state, and whether its hot keys may be split."""

    sql: str
    fingerprint: str
    is_split: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """What a job asks of a stream: the queries over it, and how the watermark follows from its rows.

    event_time     the column with the time of each row
    partition_by   the column that names a row's partition; None: there is only one
    max_ahead_us   rows further ahead than this of their appending, or of the clock, go to quarantine; None: none does
    max_threads    how many partial matches a key may have at once
    keep_original  whether late and quarantined rows are kept, and not only counted
    source         what tells trimtab's own source from others (see `identity_of`); "": Spark reads the stream
    """

    event_time: str
    rule: TimeRule
    queries: Mapping[str, QuerySetup]
    partition_by: str | None = None
    max_ahead_us: int | None = None
    max_threads: int = MAX_THREADS
    keep_original: bool = False
    source: str = ""

    def runs_like(self, other: Setup) -> bool:
        """Whether batches of both are run by the same prepared queries: only how time passes may differ."""
        return replace(self, rule=other.rule) == other

    def as_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads."""
        queries = {name: [each.sql, each.fingerprint, each.is_split] for name, each in self.queries.items()}
        others = {name: getattr(self, name) for name in _OPTIONAL}
        return {"event_time": self.event_time, "queries": queries, **asdict(self.rule), **others}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Setup:
        """The setup that `as_json` wrote, also in a build that knew less."""
        rule = TimeRule(kept["delay_us"], tuple(kept.get("partitions", ())), kept.get("count", 1))
        queries = {name: QuerySetup(*each) for name, each in kept["queries"].items()}
        return cls(kept["event_time"], rule, queries, **{name: kept[name] for name in _OPTIONAL if name in kept})


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch: which rows it takes, and everything that decides what becomes of them.

    number          trimtab's own number, by which sinks recognise the batch
    spark_batch     the Spark batch whose rows it takes; None: it takes none of Spark's
    ranges          the ranges of trimtab's own source that it takes, at most one of each partition; an empty one
                    says where a partition begins that has no position yet
    closing         whether the input ends with it
    clock_s         the time of day that the batch uses
    time            which rows are late or too far ahead, which partitions are idle, and what is due
    """

    incarnation: str
    number: int
    spark_batch: int | None
    closing: bool
    clock_s: float
    time: BatchTime
    placement: Placement
    setup: Setup
    ranges: tuple[Range, ...] = ()

    @property
    def has_rows(self) -> bool:
        """Whether it takes any rows: there may still be none."""
        return self.spark_batch is not None or bool(self.ranges)

    @property
    def reads_itself(self) -> bool | None:
        """Whether trimtab itself reads the rows, and not Spark; None: there are none to read."""
        return bool(self.ranges) if self.has_rows else None

    def to_bytes(self) -> bytes:
        """The plan as a file."""
        body = {each.name: getattr(self, each.name) for each in fields(self)}
        parts = {"time": _time_json(self.time), "placement": self.placement.as_json(), "setup": self.setup.as_json()}
        ranges = [[each.partition, each.start, each.end] for each in self.ranges]
        return seal(FORMAT, body | parts | {"ranges": ranges})

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "the plan") -> BatchPlan:
        """Read what `to_bytes` wrote; `path` is for messages.

        Raises StateError `state.corrupt` or `state.newer`.
        """

        def read(body: dict[str, Any]) -> BatchPlan:
            placement, setup = Placement.from_json(body["placement"]), Setup.from_json(body["setup"])
            time = _time_from_json(body.pop("time", None) or _time_of_format_1(body), setup.rule)
            ranges = tuple(Range(*each) for each in body.get("ranges", ()))
            return cls(**body | {"time": time, "placement": placement, "setup": setup, "ranges": ranges})

        return unseal(data, path, FORMAT, read)


def write_plan(folder: Folder, plan: BatchPlan) -> None:
    """Write the plan of a batch before it has any effect outside.

    Raises StateError `state.lost-lock` if there is one: another job has begun the batch.
    """
    name = manifest_name(plan.number)
    try:
        folder.write(name, plan.to_bytes(), replace=False)
    except FileExistsError as error:
        raise StateError(
            "state.lost-lock",
            f"another job has begun batch {plan.number} of this stream: {folder.shown_path(name)}",
            "nothing was handed to a sink; make sure that only one job uses the checkpoint, then start it again",
        ) from error


def read_plan(folder: Folder, number: int, incarnation: str) -> BatchPlan | None:
    """The plan of a batch, if it was begun before.

    Raises StateError `state.corrupt`, `state.newer` or `state.foreign`.
    """
    name = manifest_name(number)
    if not folder.exists(name):
        return None
    path = folder.shown_path(name)
    plan = BatchPlan.from_bytes(folder.read(name), path)
    if plan.number != number or plan.incarnation != incarnation:
        hint = "restore the checkpoint's own files, or start the job with a fresh checkpoint"
        raise StateError("state.foreign", f"{path} is not the plan of batch {number} of this stream", hint)
    return plan


def _time_json(time: BatchTime) -> dict[str, Any]:
    """All but the rule, which is a part of the setup."""
    silence = [sorted(time.silence.idle), time.silence.is_unseen_idle, time.silence.quiet_us]
    before = [time.before.watermark_us, dict(time.before.newest_us)]
    limits = {"latest_us": time.latest_us, "max_ahead_us": time.max_ahead_us}
    return {"before": before, "silence": silence, "reported_us": time.reported_us, **limits}


def _time_from_json(kept: Mapping[str, Any], rule: TimeRule) -> BatchTime:
    idle, is_unseen_idle, quiet_us = kept["silence"]
    silence = Silence(frozenset(idle), is_unseen_idle, quiet_us)
    limits = (kept["latest_us"], kept.get("max_ahead_us"))
    return BatchTime(rule, StreamTime(*kept["before"]), silence, kept["reported_us"], *limits)


def _time_of_format_1(body: dict[str, Any]) -> dict[str, Any]:
    before, reported_us = [body.pop("watermark_us"), {}], body.pop("previous_watermark_us")
    return {"before": before, "silence": [[], False, 0], "reported_us": reported_us, "latest_us": None}
