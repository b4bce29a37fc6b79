"""Reading the files in which engines have left large outputs, some rows at a time: in the driver, or in tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.state.files import Folder

ROWS_AT_ONCE = 50_000
"""How many rows are in memory at a time: as texts they take tens of megabytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a batch's rows, to be sent to a task: a file of the outbox, or the rows themselves as Arrow IPC.

    number   its place in the batch
    schema   of the rows, as the sink knows them
    """

    number: int
    outbox: Folder
    schema: pa.Schema
    file: str = ""
    rows: bytes = b""

    def tables(self) -> Iterator[pa.Table]:
        """The rows, some at a time."""
        if self.file:
            yield from tables_of(self.outbox, self.file, self.schema)
        else:
            yield pa.ipc.open_stream(self.rows).read_all()


def tables_of(outbox: Folder, file: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a file with this schema, some at a time."""
    with _on_this_disk(outbox, file) as path, pq.ParquetFile(path) as opened:
        for batch in opened.iter_batches(ROWS_AT_ONCE):
            yield pa.Table.from_batches([batch]).cast(schema)


@contextmanager
def _on_this_disk(outbox: Folder, file: str) -> Iterator[str]:
    """A path of the file, which of an object store's is that of a copy."""
    if outbox.is_local:
        yield outbox.path_of(file)
        return
    with tempfile.TemporaryDirectory(prefix="trimtab-outbox-") as near:
        path = str(Path(near, file))
        outbox.fetch(file, path)
        yield path
