"""The Delta sink by the package deltalake: a table that has each batch exactly once, without a package of Spark's.

A batch is one commit of the table, which also records the batch's number as an application transaction: the same record
that Spark's connector makes (`sinks.py: DeltaSink`), so that a job may change from one to the other.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from trimtab.spark.partitioning import raise_if_unsuitable
from trimtab.spark.sink_formats import PARTITION_BY, local_folder, partition_columns, place_of
from trimtab.spark.sinks import Delivery, Sink, transaction_of
from trimtab.state.files import Folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

OPTIONS = ("path", *PARTITION_BY, "storage_options")
SCHEMES = ("", "file", "s3", "s3a", "gs", "az", "abfs", "abfss")
"""Where deltalake can write: others, such as hdfs, are left to Spark. Without a scheme it is the driver's disk."""


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
        from deltalake import CommitProperties, Transaction, write_deltalake

        stream = transaction_of(delivery)
        table = self._table()
        known = None if table is None else table.transaction_version(stream)
        if known is not None and delivery.batch <= known:
            return
        # The table as it was when it lacked the batch: a commit of the same stream since then is a conflict.
        write_deltalake(
            self._location if table is None else table,
            pa.RecordBatchReader.from_batches(delivery.table.schema, _batches(delivery)),
            mode="append" if table is not None else "error",
            partition_by=list(self.partition_by) or None,
            storage_options=dict(self.storage_options) or None,
            commit_properties=CommitProperties(app_transactions=[Transaction(stream, delivery.batch)]),
        )

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
