"""Files that appear in a folder, on a local disk or in an object store, as a source of a stream.

A position counts files, in the order in which they were found; the log of that is durable (see `file_log`). So a file
that is moved in late, with an old modification time, isn't lost, and a position always means the same file.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from trimtab.errors import InputError, JobError
from trimtab.rowwise.schemas import parse_columns
from trimtab.sources.file_content import UNREADABLE
from trimtab.sources.file_log import FileLog
from trimtab.sources.file_partitions import ALL, assigned, checked
from trimtab.sources.file_rows import PARSERS, SCHEMAS, impossible, rows_of
from trimtab.sources.file_settling import Settling
from trimtab.sources.file_store import FileStore, Found
from trimtab.sources.source import UNDECODED, Clock, Partition, Range, Rows
from trimtab.state.files import Folder

SETTLED_AFTER_S = 2.0
SETTLING_LOOK_S = 0.1
"""How often files are looked at that are waited for."""
SETTLING_AT_MOST = 10.0
"""How many times the time that settling takes they are waited for."""
LISTED_EVERY_S = 1.0
"""How long a folder that isn't on a local disk is left alone between two listings. A quiet job asks twenty times a
second what there is, and each time a store lists all objects of the folder, in pages of a thousand which cost money."""
FETCHED_AT_ONCE = 8
"""How many objects a worker waits for at once. Local files are read one by one: Spark's tasks own the cores."""

_log = logging.getLogger("trimtab")

Format = Literal["parquet", "csv", "json", "arrow"]


class Files:
    """The rows of all files below a folder, also of those that appear later.

    Files are written once, each under a name that no other file has or had: put them there by renaming, or let the
    source wait until they have settled. Names that begin with "." or "_" or end in ".tmp" and the like are left out.
    A file may be deleted when the batch that read it is committed. A local folder is listed whenever the job asks, one
    in an object store once a second at most.

    Args:
        path: A local folder, or one in an object store, such as s3://bucket/folder. Folders in it are read, too.
        format: "parquet", "arrow" (files or streams), "csv" (the first line has the names; a row is a line) or "json"
            (an object in each line). Texts may be compressed with gzip or zstd.
        schema: The columns, as an Arrow schema or as Spark's DDL: "k BIGINT, ts TIMESTAMP". A column that a file lacks
            is null, others are dropped, and types are cast. By default the columns of the first file, which only
            Parquet and Arrow files say.
        partitions: Folders below `path`, or patterns of file names (with a slash: of paths), each a partition of its
            own; a file belongs to the first that fits, or is left out. By default one partition has all files.
        settled_after_s: How long a file must be unchanged before it is read. Objects appear whole, and don't wait. With
            available_now a job waits until the files have settled that are there at its start, ten times that at most.
        start: Whether a job begins with the files that are there at its start ("earliest"), or with those that settle
            later ("latest").
        clock: The seconds since 1970.

    Raises JobError `job.source` for arguments that make no sense.
    """

    def __init__(
        self,
        path: str,
        *,
        format: Format = "parquet",
        schema: pa.Schema | str | None = None,
        partitions: Sequence[str] | None = None,
        settled_after_s: float = SETTLED_AFTER_S,
        start: Literal["earliest", "latest"] = "earliest",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if format not in PARSERS:
            raise JobError("job.source", f"{format!r} is no format of files", f"write one of {', '.join(PARSERS)}")
        if start not in ("earliest", "latest"):
            raise JobError("job.source", f"{start!r} is no start", 'write "earliest" or "latest"')
        if not settled_after_s >= 0:
            raise JobError("job.source", f"{settled_after_s=} is no length of time", "give seconds, 0 or more")
        if schema is None and format not in SCHEMAS:
            hint = 'give the columns: schema="k BIGINT, ts TIMESTAMP"'
            raise JobError("job.source", f"{format} files don't say which types their columns have", hint)
        self._store = FileStore(Folder(path))
        self._format: Format = format
        self._partitions = checked(partitions)
        self._start, self._settled_after_s, self._clock = start, settled_after_s, clock
        self._schema = _schema_of(schema)
        if self._schema is not None and (field := impossible(format, self._schema)) is not None:
            hint = "read it as STRING, and take it apart in the query"
            raise JobError("job.source", f"{format} files have no column {field.name} that is {field.type}", hint)
        self._is_schema_given = schema is not None
        self._log: FileLog | None = None
        self._settling, self._listed_s = self._fresh_settling(), -math.inf

    def __repr__(self) -> str:
        """How it was made, without credentials."""
        return f"Files({self._store.folder.shown!r}, format={self._format!r})"

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not what was seen of files that somebody may still write."""
        return self.__dict__ | {"_settling": None, "_listed_s": -math.inf}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin to watch anew."""
        self.__dict__.update(state)
        self._settling = self._fresh_settling()

    @property
    def identity(self) -> str:
        """The folder: files of the same names in another one are others."""
        return f"Files {self._store.folder.shown}"

    @property
    def schema(self) -> pa.Schema:
        """The columns: those that were given, or those of the first file.

        Raises JobError `job.source` if there is no file yet.
        """
        if self._schema is None:
            self._schema = self._first_schema()
        return self._schema

    def opened(self, folder: Folder) -> Files:
        """The same, with its log in a folder of the job's: a job that is started again goes on with the log there.

        Columns that come from the first file are kept there, too. Raises JobError `job.source` if others were given
        to queries in the meantime.
        """
        bound = copy.copy(self)
        bound._listed_s = -math.inf  # nothing that was listed is in this log
        bound._log, begun = FileLog.begun(folder, self._about)
        if not self._is_schema_given and "schema" in begun:
            first = pa.ipc.read_schema(pa.BufferReader(bytes.fromhex(begun["schema"])))
            bound._schema = first  # also if no file is left
            if self._schema is not None and not first.equals(self._schema):
                columns = f"{_listed(first)}; now {_listed(self._schema)}"
                message = f"{self._store.folder.shown} began with other columns: {columns}"
                raise JobError("job.source", message, "say which columns there are: schema=...")
        bound._schema = bound.schema  # workers must not look for the first file themselves
        return bound

    def partitions(self) -> Mapping[str, Partition]:
        """All partitions that were declared; each begins at 0, or where the first look ended."""
        log = self._bound()
        if log.is_new:
            self._look(log)
        starts = log.first_ends() if self._start == "latest" else {}
        return {name: Partition(0, starts.get(name, 0)) for name in self._partitions or (ALL,)}

    def latest(self) -> Mapping[str, int]:
        """How many files of each partition have been found. Looks for new ones: one listing, and one write at most."""
        log = self._bound()
        if not self._is_listed_lately():
            self._look(log)
        ends = log.ends()
        return {name: ends.get(name, 0) for name in self._partitions or (ALL,)}

    @property
    def complete_s(self) -> float:
        """All files that had come by then are known: not those that have yet to settle, or came since the listing."""
        return self._settling.complete_s

    def settle(self, wait: Callable[[float], bool]) -> None:
        """Return once all files have settled that are there now; `wait(seconds)` waits, and says whether to give up.

        Files that are written on and on are given up after `SETTLING_AT_MOST` times the time that settling takes.
        """
        log, until_s = self._bound(), self._clock() + SETTLING_AT_MOST * self._settled_after_s
        self._look(log)
        left = self._settling.waiting
        while left and not wait(SETTLING_LOOK_S):
            if self._clock() >= until_s:
                _log.warning("%r goes on without %s files that are still being written", self, len(left))
                return
            self._look(log)
            left &= self._settling.waiting

    @property
    def is_near(self) -> bool:
        """Whether the files are on a disk of this machine."""
        return self._store.folder.is_local

    def read(self, part: Range) -> Rows:
        """The rows of the files of a range.

        A line that can't be parsed or cast is among `undecoded`, and so is a file that is damaged as a whole.
        Raises InputError `input.file` if a file has vanished or changed since it was found.
        """
        found = self._bound().entries(part.partition, part.start, part.end)
        tables, counts, lost = [self.schema.empty_table()], list[int](), list[tuple[str, int, bytes, str]]()
        for position, (each, file) in enumerate(self._fetched(found), start=part.start):
            try:
                with file:
                    table, bad = rows_of(file, self._format, self.schema)
            except OSError as error:
                hint = "make sure that the storage answers, and start the job again"
                path = self._store.folder.shown_path(each.path)
                raise InputError("input.file", f"{path} can't be read: {error}", hint) from error
            self._store.check(each)
            tables.append(table)
            counts.append(table.num_rows)
            lost += [(part.partition, position, value, _place(each.path, line, why)) for line, value, why in bad]
        times = np.array([each.modified_us for each in found], dtype=np.int64)
        undecoded = None
        if lost:
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*lost, strict=True), UNDECODED, strict=True)
            ]
            undecoded = pa.Table.from_arrays(arrays, schema=UNDECODED)
        of_rows = np.repeat(np.arange(part.start, part.start + len(counts)), counts)
        appended_us, positions = pa.array(times[of_rows - part.start]), pa.array(of_rows)
        return Rows(pa.concat_tables(tables), appended_us, undecoded, Clock.FILE, positions)

    def _fetched(self, found: Sequence[Found]) -> Iterator[tuple[Found, pa.NativeFile]]:
        if self._store.folder.is_local or len(found) < 2:
            yield from ((each, self._store.fetched(each)) for each in found)
            return
        with ThreadPoolExecutor(FETCHED_AT_ONCE) as pool:
            for start in range(0, len(found), FETCHED_AT_ONCE):  # so that few of them are in memory
                some = found[start : start + FETCHED_AT_ONCE]
                yield from zip(some, pool.map(self._store.fetched, some), strict=True)

    def _is_listed_lately(self) -> bool:
        passed_s = self._clock() - self._listed_s
        return not self._store.folder.is_local and 0 <= passed_s < LISTED_EVERY_S  # clocks may be set back

    def _look(self, log: FileLog) -> None:
        """Add what is new to the log. The first look is added even if it found nothing: "latest" begins there."""
        while True:
            began_s = self._clock()
            listed = self._store.listed(log.known())
            self._listed_s = self._clock()  # after it: listing many objects takes long by itself
            new = self._settling.settled(listed, began_s, self._listed_s)
            files = assigned(new, self._partitions)
            if (not log.is_new and not any(files.values())) or log.add(files):
                return

    def _about(self) -> dict[str, str]:
        return {} if self._is_schema_given else {"schema": self.schema.serialize().to_pybytes().hex()}

    def _bound(self) -> FileLog:
        if self._log is None:
            hint = "a job gives it a folder of its checkpoint; elsewhere write files.opened(Folder(path))"
            raise JobError("job.source", f"{self!r} has no folder for its log of files", hint)
        return self._log

    def _fresh_settling(self) -> Settling:
        return Settling(self._settled_after_s if self._store.folder.is_local else 0)

    def _first_schema(self) -> pa.Schema:
        folder = self._store.folder
        files = assigned(self._store.listed(), self._partitions).values()
        first = min((found for part in files for found in part), key=_age, default=None)
        if first is None:
            raise JobError("job.source", f"{folder.shown} has no files yet", 'give the columns: schema="k BIGINT"')
        try:
            with self._store.fetched(first) as file:
                found = SCHEMAS[self._format](file)
        except UNREADABLE as error:
            message = f"{folder.shown_path(first.path)} doesn't say which columns it has: {str(error).splitlines()[0]}"
            raise JobError("job.source", message, "give the columns, schema=..., or remove the file") from error
        return pa.schema([(field.name, field.type) for field in found])  # without the metadata of one file


def _schema_of(schema: pa.Schema | str | None) -> pa.Schema | None:
    if not isinstance(schema, str):
        return schema
    try:
        return parse_columns(schema)
    except InputError as error:
        raise JobError("job.source", error.message, 'write schema="k BIGINT, ts TIMESTAMP"') from error


def _age(found: Found) -> tuple[int, str]:
    return found.modified_us, found.path


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _place(path: str, line: int, reason: str) -> str:
    return f"{path}:{line}: {reason}" if line else f"{path}: {reason}"
