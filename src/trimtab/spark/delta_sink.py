"""The Delta sink by the package deltalake: a table that has each batch exactly once, without a package of Spark's.

A batch is one commit of the table, which also records the batch's number as an application transaction: the same record
that Spark's connector makes (`sinks.py: DeltaSink`), so that a job may change from one to the other. Where engines left
rows in files, tasks write the table's files, and the driver only commits their names; otherwise deltalake writes.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from trimtab.errors import StateError
from trimtab.spark.delta_demands import Field, TableFacts, obstacle
from trimtab.spark.delta_files import DeltaFile, DeltaFiles
from trimtab.spark.partitioning import raise_if_unsuitable
from trimtab.spark.sink_formats import PARTITION_BY, local_folder, partition_columns, place_of
from trimtab.spark.sinks import Delivery, Sink, transaction_of
from trimtab.spark.task_files import in_tasks, made, move, stem, within
from trimtab.state import objects
from trimtab.state.files import Folder

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Schema

log = logging.getLogger("trimtab")

OPTIONS = ("path", *PARTITION_BY, "storage_options")
SCHEMES = ("", "file", "s3", "s3a", "gs", "az", "abfs", "abfss")
"""Where deltalake can write: others, such as hdfs, are left to Spark. Without a scheme it is the driver's disk."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the files of a table have to look like: its columns, and those that it has partitions by."""

    schema: Schema
    by: tuple[str, ...]


@dataclass(slots=True)
class DeltaTableSink(Sink):
    """A Delta Lake table, exactly once; the first batch with rows makes it if there is none.

    path              its folder, on a disk or in an object store
    partition_by      the columns whose values its folders are named by, if it is made
    storage_options   what deltalake is to know of an object store
    """

    path: str
    partition_by: Sequence[str] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are among them
    _is_out_of_tasks_reach: bool = field(default=False, init=False, repr=False)  # as this start has found

    @property
    def shown(self) -> str:
        """The format and the folder."""
        return f"delta {Folder(self.path).shown}"

    def place(self, name: str) -> str:
        """The folder."""
        return place_of("delta", {"path": self.path}, name)

    def prepare(self, name: str, columns: Sequence[str]) -> None:
        """Raise JobError `job.sink` for partitions by no column, StateError `state.access` for a closed folder."""
        raise_if_unsuitable(self.partition_by, columns, f"{name}: a Delta table")
        if (folder := local_folder(self.path)) is not None:
            folder.make()
            folder.check_writable()

    def take(self, delivery: Delivery) -> None:
        """Append in one commit, which records the stream and the batch, unless the table has the batch."""
        if delivery.table is None:
            return
        from deltalake import CommitProperties, Transaction

        stream = transaction_of(delivery)
        table = self._table()
        known = None if table is None else table.transaction_version(stream)
        if known is not None and delivery.batch <= known:
            return
        # The table as it was when it lacked the batch: a commit of the same stream since then is a conflict.
        commit = CommitProperties(app_transactions=[Transaction(stream, delivery.batch)])
        shape = self._shape(delivery, table) if delivery.files else None
        files = None if shape is None else self._files_of_tasks(delivery, shape)
        if shape is None or files is None:
            self._write(delivery, table, commit)
            return
        for file in files:
            if file.left:
                move(delivery.outbox, file.left, made(Folder(self.path), file.parts), file.name)
        self._add(files, shape, table, commit)

    def _write(self, delivery: Delivery, table: DeltaTable | None, commit: CommitProperties) -> None:
        """Let deltalake write the rows, some at a time."""
        from deltalake import write_deltalake

        assert delivery.table is not None
        write_deltalake(
            self._location if table is None else table,
            pa.RecordBatchReader.from_batches(delivery.table.schema, _batches(delivery)),
            mode="append" if table is not None else "error",
            partition_by=list(self.partition_by) or None,
            storage_options=dict(self.storage_options) or None,
            commit_properties=commit,
        )

    def _shape(self, delivery: Delivery, table: DeltaTable | None) -> _Shape | None:
        """What files of the table have to look like; None if only deltalake can write them."""
        from deltalake import Schema

        if self.storage_options or self._is_out_of_tasks_reach or not _is_in_reach(self.path):
            return None
        assert delivery.table is not None
        try:
            schema = Schema.from_arrow(delivery.table.schema)
        except Exception:  # deltalake has no better class for types that Delta lacks
            return None
        own, by, facts = _fields(schema), [*self.partition_by], None
        if table is not None:
            schema, by = table.schema(), table.metadata().partition_columns
            if self.partition_by and [*self.partition_by] != by:
                return None  # deltalake refuses it
            facts = TableFacts(_fields(schema), table.protocol().writer_features or (), table.metadata().configuration)
        if why := obstacle(own, by, facts):
            log.info("%s is written by the driver: %s", self.shown, why)
            return None
        return _Shape(schema, tuple(by))

    def _files_of_tasks(self, delivery: Delivery, shape: _Shape) -> list[DeltaFile] | None:
        """Files that tasks have written for the table; None if they can't reach it."""
        remote = Folder(self.path) if _is_remote(self.path) else None
        types = pa.schema(shape.schema.to_arrow())
        writer = DeltaFiles(types, shape.by, stem(delivery), delivery.batch, delivery.epoch, remote)
        try:
            found = in_tasks(delivery.spark, delivery.pieces(), writer.write)
            missing = [own[0] for own in found if remote and own and not _is_there(remote, own[0])]
            if not missing:
                return [file for own in found for file in own]
            why = f"{missing[0].path} isn't there, so they write elsewhere: do they have other settings?"
        except StateError as error:
            if remote is None:
                raise
            why = str(error)
        # deltalake may find credentials where nobody else looks for them. To find that out again may take a minute.
        self._is_out_of_tasks_reach = True
        log.warning("tasks can't write to %s, so the driver does: %s", Folder(self.path).shown, why)
        return None

    def _add(
        self, files: Sequence[DeltaFile], shape: _Shape, table: DeltaTable | None, commit: CommitProperties
    ) -> None:
        """Make files that are in their places a part of the table, all at once."""
        from deltalake.transaction import AddAction, create_table_with_add_actions

        now_ms = int(time.time() * 1000)
        actions = [
            AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values=dict(zip(shape.by, file.values, strict=True)),
                modification_time=now_ms,
                data_change=True,
                stats=file.statistics,
            )
            for file in files
        ]
        by = [*shape.by]
        if table is None:
            create_table_with_add_actions(
                self._location, shape.schema, actions, mode="error", partition_by=by, commit_properties=commit
            )
        else:
            table.create_write_transaction([*actions], "append", shape.schema, by, commit_properties=commit)

    def _table(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        options = dict(self.storage_options) or None
        if not DeltaTable.is_deltatable(self._location, options):
            return None
        return DeltaTable(self._location, storage_options=options)

    @property
    def _location(self) -> str:
        return Folder(self.path).location


def delta_table_sink(options: Mapping[str, Any]) -> DeltaTableSink | None:
    """The sink for the options of `.write("delta", ...)`; None: Spark's connector is to write it.

    That is the case for options of Spark's, for places that only Spark knows, and if the package isn't installed.
    """
    has_others = bool(set(options) - set(OPTIONS)) or urlsplit(str(options.get("path"))).scheme.lower() not in SCHEMES
    if "path" not in options or has_others or importlib.util.find_spec("deltalake") is None:
        return None
    return DeltaTableSink(str(options["path"]), partition_columns(options), dict(options.get("storage_options") or {}))


def _batches(delivery: Delivery) -> Iterator[pa.RecordBatch]:
    for part in delivery.parts():
        yield from part.to_batches()


def _is_there(table: Folder, file: DeltaFile) -> bool:
    return within(table, file.parts).exists(file.name)


def _is_remote(path: str) -> bool:
    return not Folder(path).is_local


def _is_in_reach(path: str) -> bool:
    """Whether trimtab can write there itself."""
    return not _is_remote(path) or urlsplit(path).scheme.lower() in objects.SCHEMES


def _fields(schema: Schema) -> list[Field]:
    found: list[Field] = json.loads(schema.to_json())["fields"]
    return found
