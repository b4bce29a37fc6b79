"""A stream that goes on another way: trimtab reads itself what Spark has read, or the other way, or another source.

The state stays: batches are counted on, and the watermark doesn't fall. But none knows the positions of the other, so a
user has to say where the stream goes on (`start_at`). Without that, rows would be read twice, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from trimtab.driver.batch_plan import BatchPlan
from trimtab.errors import InputError, JobError
from trimtab.sources.source import Partition
from trimtab.state.manifest import Manifest

OWN: Literal["own"] = "own"
"""Begin where a new job would: where the source, or the DataFrame, says itself."""
_SAY_WHERE = (
    'say where each partition goes on, start_at={"ticks:0": 1234}, or start_at="own" to begin where the source says '
    "itself"
)
StartAt: TypeAlias = Mapping[str, int] | Literal["own"] | None
"""The position of each partition, or `OWN`; None: nothing is said."""


def check_start_at(stream: str, start_at: Any, *, is_source: bool) -> None:
    """Raise JobError `job.start-at` if this can't be where a stream begins."""
    if start_at is None or start_at == OWN:
        return
    name = f"start_at={start_at!r} of stream {stream}"
    if not is_source:
        message = f"{name} is of no use: the positions of a DataFrame are Spark's"
        hint = 'say in the DataFrame where it begins (for Kafka: startingOffsets), and give start_at="own"'
        raise JobError("job.start-at", message, hint)
    are_positions = isinstance(start_at, Mapping) and all(
        isinstance(key, str) and type(at) is int and at >= 0 for key, at in start_at.items()
    )
    if not are_positions or not start_at:
        message = f"{name} has no position for each partition"
        raise JobError("job.start-at", message, 'write for example start_at={"ticks:0": 1234}, or start_at="own"')


def check_reader(
    stream: str,
    known: Manifest | None,
    begun: BatchPlan | None,
    start_at: StartAt,
    *,
    source: str,
    read_by_spark: str = "",
) -> None:
    """Check that whoever is to read a stream has read it before, or was told where to go on.

    source          what tells the source from others (`identity_of`); "": a DataFrame is to be read
    read_by_spark   up to where Spark has read, if that is known

    Raises JobError `job.source-changed`.
    """
    is_source = bool(source)
    if begun is not None and not _reads_for(begun, source):
        who = begun.setup.source or "a source" if begun.reads_itself else "a DataFrame"
        raise JobError(
            "job.source-changed",
            f"batch {begun.number} of stream {stream} was begun with rows of {who}, and isn't finished",
            "start the job once as it was, so that the batch is finished, and change it then",
        )
    if known is None or known.reads_itself is None or start_at is not None:
        return
    if known.reads_itself == is_source and known.is_of(source):
        return
    if is_source and known.reads_itself:
        message = f"stream {stream} was read from {known.source} so far, up to {dict(known.positions)}; now {source}"
        hint = _SAY_WHERE
    elif is_source:
        upto = f", up to {read_by_spark}" if read_by_spark else ""
        message = f"Spark has read stream {stream} so far{upto}; its source doesn't know where that is"
        hint = _SAY_WHERE
    else:
        positions = dict(known.positions)
        message = f"trimtab has read stream {stream} itself so far, up to {positions}; Spark doesn't know that"
        hint = f'let the DataFrame begin there{_for_kafka(known.positions)}, and give start_at="own"'
    raise JobError("job.source-changed", message, f"{hint}; or start with a fresh checkpoint")


def _reads_for(begun: BatchPlan, source: str) -> bool:
    """Whether a batch takes rows of this source, or none."""
    if begun.ranges:
        return begun.setup.source in ("", source) and bool(source)
    return not begun.has_rows or not source


def check_positions(start_at: StartAt, partitions: Mapping[str, Partition], latest: Mapping[str, int]) -> None:
    """Check the positions at which partitions begin that were not read before.

    Raises InputError `source.start-at` where a partition has none, isn't there, or doesn't reach from there to there.
    """
    if not isinstance(start_at, Mapping):
        return
    hint = "its partitions are " + (", ".join(sorted(partitions)) or "none so far")
    if missing := sorted(partitions.keys() - start_at.keys()):
        raise InputError("source.start-at", f"start_at has no position for partition {missing[0]}", hint)
    if unknown := sorted(start_at.keys() - partitions.keys()):
        message = f"start_at names partition {unknown[0]}, which the source doesn't have"
        raise InputError("source.start-at", message, hint)
    for name, at in start_at.items():
        first, end = partitions[name].earliest, latest.get(name, partitions[name].earliest)
        if not first <= at <= end:
            message = f"start_at begins partition {name} at {at}, but it has positions {first} to {end}"
            raise InputError("source.start-at", message, "give a position that is there, or the one after the last")


def _for_kafka(positions: Mapping[str, int]) -> str:
    """The positions as Spark's option for Kafka, if they may be those of topics."""
    topics: dict[str, dict[str, int]] = {}
    for name, at in positions.items():
        topic, _, number = name.rpartition(":")
        if not topic or not number.isdigit():
            return ""
        topics.setdefault(topic, {})[number] = at
    return f" (for Kafka: startingOffsets = {json.dumps(topics)})"
