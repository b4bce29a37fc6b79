"""A checked job file as plain values: what `job_file` returns and the rest of `trimtab run` works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from trimtab.control.intake import Intake
from trimtab.deciding.policy import DEFAULT, Balance, Scale
from trimtab.sources.source import Source

DEFAULT_KEY_GROUPS = 1024


@dataclass(frozen=True, slots=True)
class SinkSection:
    """Where rows go: a Spark format with its options (`path` among them), or a function as "module:name"."""

    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    python: str = ""

    def __str__(self) -> str:
        """For people: what it is, and where."""
        return self.python or " ".join(part for part in (self.format, self.options.get("path", "")) if part)


@dataclass(frozen=True, slots=True)
class OwnSource:
    """A source that trimtab reads itself.

    kind      what the file calls it: "files", "kafka" or "rate"
    columns   its columns; None: its first file has them
    path      the folder that it reads
    servers   the addresses that it reads from
    """

    kind: str
    source: Source
    columns: pa.Schema | None
    path: str = ""
    servers: str = ""


@dataclass(frozen=True, slots=True)
class StreamSection:
    """A source, what is done to its rows first, and where its rejected rows go.

    `own`: the source, if trimtab reads it itself; there is no format then, and nothing is done to its rows.
    """

    name: str
    format: str
    event_time: str
    delay: str = "0 seconds"
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    where: str | None = None
    late: SinkSection | None = None
    quarantine: SinkSection | None = None
    time: Mapping[str, Any] = field(default_factory=dict)  # partition_by, partitions, idle_after, max_ahead, if written
    own: OwnSource | None = None


@dataclass(frozen=True, slots=True)
class QuerySection:
    """A query and its sinks, of which there is at least one."""

    name: str
    sql: str
    sinks: tuple[SinkSection, ...]
    reset: bool = False
    split: str | None = None


@dataclass(frozen=True, slots=True)
class JobFile:
    """A checked job: every path in it is absolute."""

    path: Path
    checkpoint: str
    streams: tuple[StreamSection, ...]
    queries: tuple[QuerySection, ...]
    key_groups: int = DEFAULT_KEY_GROUPS
    engines: int | None = None  # None: as many as the checkpoint has, or one per core for a new one
    balance: Balance | None = DEFAULT
    scale: Scale | None = None
    intake: Intake | None = Intake()  # noqa: RUF009 - it is frozen
    trigger: str | None = None  # None: a batch starts as soon as there is data
    available_now: bool = False
    close: bool = False
    operators: tuple[str, ...] = ()
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    are_modules_imported: bool = True  # False: they are only looked for, so that none of their code runs

    def sinks(self) -> dict[str, SinkSection]:
        """All sinks, by their places in the file."""
        rejects = {
            f"streams.{stream.name}.{what}": sink
            for stream in self.streams
            for what, sink in (("late", stream.late), ("quarantine", stream.quarantine))
            if sink is not None
        }
        found = {f"queries.{each.name}.sinks[{i}]": sink for each in self.queries for i, sink in enumerate(each.sinks)}
        return {**rejects, **found}
