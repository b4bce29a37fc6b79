"""A batch's plan: what it is going to do, decided and written to disk before the batch has any effect outside.

The output of a batch depends only on its plan, on the state before it and on its rows. So a batch that is repeated
after a crash follows the plan of its first try, under the same number, and gives the same rows, even if queries, the
delay, the engines or the placement were changed in between. Such changes wait for the next batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from trimtab.deciding.placement import Placement
from trimtab.errors import StateError
from trimtab.state.files import Folder
from trimtab.state.manifest import manifest_name, seal, unseal

FORMAT = 1


@dataclass(frozen=True, slots=True)
class QuerySetup:
    """A query as a batch runs it: its text, the fingerprint of its state, and whether its hot keys may be split."""

    sql: str
    fingerprint: str
    is_split: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """What a job asks of a stream: the queries over it, its event time, and how late rows may come."""

    event_time: str
    delay_us: int
    queries: Mapping[str, QuerySetup]

    def as_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads."""
        queries = {name: [each.sql, each.fingerprint, each.is_split] for name, each in self.queries.items()}
        return {"event_time": self.event_time, "delay_us": self.delay_us, "queries": queries}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Setup:
        """The setup that `as_json` wrote."""
        return cls(
            kept["event_time"], kept["delay_us"], {name: QuerySetup(*each) for name, each in kept["queries"].items()}
        )


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch: which rows it takes, and everything that decides what becomes of them.

    number          trimtab's own number, by which sinks recognise the batch
    spark_batch     the Spark batch whose rows it takes; None: it has no rows
    closing         whether the input ends with it
    clock_s         the time of day that the batch uses
    watermark_us    rows older than this are late; None: no row is
    previous_watermark_us   the watermark of the batch before, up to which time-outs have been reported
    """

    incarnation: str
    number: int
    spark_batch: int | None
    closing: bool
    clock_s: float
    watermark_us: int | None
    previous_watermark_us: int | None
    placement: Placement
    setup: Setup

    def to_bytes(self) -> bytes:
        """The plan as a file."""
        body = {each.name: getattr(self, each.name) for each in fields(self)}
        return seal(FORMAT, body | {"placement": self.placement.as_json(), "setup": self.setup.as_json()})

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "the plan") -> BatchPlan:
        """Read what `to_bytes` wrote; `path` is for messages.

        Raises StateError `state.corrupt` or `state.newer`.
        """

        def read(body: dict[str, Any]) -> BatchPlan:
            placement, setup = Placement.from_json(body["placement"]), Setup.from_json(body["setup"])
            return cls(**body | {"placement": placement, "setup": setup})

        return unseal(data, path, FORMAT, read)


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
