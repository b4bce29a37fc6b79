"""The coordinator's log: every observation with the decision on it, one small file a batch, so that it can be replayed.

streams/<stream>/decisions/000000000042.arrow    one row per key group; what concerns the whole batch is metadata
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from trimtab.control.intake import Intake, IntakeLimit, IntakeObserved
from trimtab.control.intake_controller import IntakeState
from trimtab.deciding import actions
from trimtab.deciding.coordinator import Decision
from trimtab.deciding.observation import Observation, ObservedHotKeys
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Scale
from trimtab.errors import StateError
from trimtab.state.files import Folder

KEPT = 1_000
"""How many batches the log goes back."""
FORMAT = 1
_ABOUT = b"trimtab"
_COLUMNS = ("events", "busy_ns", "state_bytes")

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch in the log.

    `is_first`: the coordinator was new, because the job was started. `intake_state`: what the controller of the intake
    knew before the batch.
    """

    observed: Observation
    decision: Decision
    balance: Balance | None
    scale: Scale | None
    interval_s: float
    is_first: bool
    split: str | None = None
    intake: Intake | None = None
    intake_state: IntakeState | None = None


def write(folder: Folder, entry: Entry) -> None:
    """Add an entry, and delete the one that is too old."""
    folder.write(_name(entry.observed.batch), to_bytes(entry), durable=False)
    if entry.observed.batch >= KEPT:
        folder.delete(_name(entry.observed.batch - KEPT))


def read(folder: Folder) -> Iterator[Entry]:
    """All entries, the oldest first.

    Raises StateError `state.log` where a file isn't one of the log's.
    """
    for name in sorted(folder.names()) if folder.exists() else ():
        if name.endswith(".arrow"):
            content = folder.read(name)
            try:
                entry = from_bytes(content)
            except Exception as error:  # a damaged file may raise anything: Arrow's, JSON's or our own errors
                message = f"{folder.shown_path(name)} can't be read as an entry of the coordinator's log: {error}"
                raise StateError("state.log", message, "delete it: nothing but a replay needs it") from error
            yield entry


def last(folder: Folder) -> Entry | None:
    """The newest entry; None: there is none, or it can't be read."""
    try:
        names = [name for name in folder.names() if name.endswith(".arrow")]
        return from_bytes(folder.read(max(names))) if names else None
    except Exception:  # whatever a damaged file raises: nothing but the first limit depends on it
        return None


def to_bytes(entry: Entry) -> bytes:
    """An entry as an Arrow file."""
    observed = entry.observed
    about = {
        "format": FORMAT,
        "batch": observed.batch,
        "span_s": observed.span_s,
        "batch_s": observed.batch_s,
        "engines": observed.placement.engines,
        "spread": observed.placement.as_json()["spread"],
        "hot": [column.tolist() for column in observed.hot],
        "engine_ns": observed.engine_ns.tolist(),
        "hosts": observed.executors,  # the name that logs have for it
        "is_planner_compiled": observed.is_planner_compiled,
        "decision": _decision_as_json(entry.decision),
        "balance": entry.balance and entry.balance.as_json(),
        "scale": entry.scale and entry.scale.as_json(),
        "split": entry.split,
        "interval_s": entry.interval_s,
        "is_first": entry.is_first,
        "intake": _intake_as_json(entry),
    }
    columns = {"owner": observed.placement.array(), **{name: getattr(observed, name) for name in _COLUMNS}}
    table = pa.table(columns).replace_schema_metadata({_ABOUT: json.dumps(about).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(content: bytes) -> Entry:
    """The entry that `to_bytes` wrote."""
    table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
    about: dict[str, Any] = json.loads((table.schema.metadata or {})[_ABOUT])
    if about["format"] != FORMAT:
        raise ValueError(f"its format is {about['format']}, and {FORMAT} was expected")
    intake = about.get("intake") or {}  # older logs have none
    columns: dict[str, Any] = {name: table.column(name).to_numpy().astype(np.int64) for name in ("owner", *_COLUMNS)}
    observed = Observation(
        batch=about["batch"],
        span_s=about["span_s"],
        batch_s=about["batch_s"],
        placement=Placement.from_json({**about, "owner": columns.pop("owner").tolist()}),
        **columns,
        engine_ns=np.array(about["engine_ns"], np.int64),
        executors=tuple(about["hosts"]),
        hot=ObservedHotKeys(*(np.array(each, np.int64) for each in about["hot"])),
        is_planner_compiled=about.get("is_planner_compiled", True),  # older logs were written after compiling
        intake=_made(IntakeObserved.from_json, intake.get("observed")),
    )
    decided = about["decision"]
    return Entry(
        observed=observed,
        decision=Decision(
            **{**decided, "actions": actions.from_json(decided["actions"])},
            intake=_made(IntakeLimit.from_json, intake.get("limit")),
        ),
        balance=about["balance"] and Balance(**about["balance"]),
        scale=about["scale"] and Scale(**about["scale"]),
        split=about["split"],
        interval_s=about["interval_s"],
        is_first=about["is_first"],
        intake=_made(lambda settings: Intake(**settings), intake.get("settings")),
        intake_state=_made(IntakeState.from_json, intake.get("state")),
    )


def _decision_as_json(decision: Decision) -> dict[str, Any]:
    values = {**asdict(decision), "actions": actions.as_json(decision.actions)}
    del values["intake"]  # it is beside the other values of the intake
    return values


def _intake_as_json(entry: Entry) -> dict[str, Any] | None:
    parts = {
        "settings": entry.intake,
        "state": entry.intake_state,
        "observed": entry.observed.intake,
        "limit": entry.decision.intake,
    }
    return {name: part.as_json() for name, part in parts.items() if part is not None} or None


def _made(make: Callable[[dict[str, Any]], Made], values: dict[str, Any] | None) -> Made | None:
    return None if values is None else make(values)


def _name(batch: int) -> str:
    return f"{batch:012d}.arrow"
