"""Which files a source has found, in the order in which it found them: a position counts through that order.

The log is append-only: immutable chunks in a folder, each with all files that one look found. Once a chunk is written,
its positions mean the same files for ever. Small chunks are merged now and then, which changes no position.

Names are never forgotten, also of files that are long gone: a file that is restored, or a folder that is mounted again,
couldn't be told from new files otherwise, and would be read twice. A name takes some twelve bytes in the folder.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trimtab.errors import StateError
from trimtab.sources.file_store import Found
from trimtab.state.files import Folder

ABOUT = "about.json"
FORMAT = 1
MERGED = 32
"""How many chunks of one look each are merged at once."""
TRIES = 5
SCHEMA = pa.schema(
    {
        "partition": pa.string(),
        "path": pa.string(),
        "size_bytes": pa.int64(),
        "modified_us": pa.int64(),
        "tag": pa.string(),
    }
)
_NAME = re.compile(r"found-(\d{10})-(\d{10})\.arrow")
_RESTORE = "restore it from a copy of the checkpoint, or start the job with a fresh checkpoint"


@dataclass(frozen=True, slots=True, order=True)
class Chunk:
    """The numbers of the looks whose files a chunk has."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"found-{self.first:010d}-{self.last:010d}.arrow"


@dataclass(frozen=True, slots=True)
class FileLog:
    """The log in a folder; `id` tells it from one that was there before. What was read stays in the process."""

    folder: Folder
    id: str

    @classmethod
    def begun(cls, folder: Folder, about: Callable[[], Mapping[str, Any]]) -> tuple[FileLog, dict[str, Any]]:
        """The log in a folder, which is made if there is none, and what it was begun with: `about()` if it is new."""
        folder.make()
        if not folder.exists(ABOUT):
            new = {"format": FORMAT, "id": uuid.uuid4().hex, **about()}
            with suppress(FileExistsError):  # another process was quicker; its log is as good
                folder.write(ABOUT, json.dumps(new).encode(), replace=False)
        found = json.loads(folder.read(ABOUT))
        if found["format"] > FORMAT:
            path = folder.shown_path(ABOUT)
            raise StateError("state.newer", f"{path} was written by a later version of trimtab", "upgrade trimtab")
        log = cls(folder, found["id"])
        log._content().refresh()  # another process may have gone on since this one used it
        return log, found

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever added, not even nothing."""
        return not self._content().chunks

    def first_ends(self) -> Mapping[str, int]:
        """Where each partition ended after the first look."""
        return self._content().first_ends

    def ends(self) -> Mapping[str, int]:
        """Where each partition ends."""
        return self._content().ends

    def known(self) -> set[str]:
        """The paths of all files that were found."""
        return self._content().known()

    def add(self, files: Mapping[str, Sequence[Found]]) -> bool:
        """Write the files of one look; False if another process has written in between: then look again.

        Only the process that holds the job's lock may do this.
        """
        content = self._content()
        table = _as_table(files)
        chunk = Chunk(content.next_number, content.next_number)
        try:
            self.folder.write(chunk.name, _to_bytes(table), replace=False)
        except FileExistsError:
            content.refresh()
            return False
        content.append(chunk, table)
        content.merge_small()
        return True

    def entries(self, partition: str, start: int, end: int) -> list[Found]:
        """The files at these positions. Raises StateError `state.missing` for positions that were never given out."""
        content = self._content()
        if content.ends.get(partition, 0) < end:
            content.refresh()
        if not 0 <= start <= end <= content.ends.get(partition, 0):
            message = f"{self.folder.shown} has no files {start} to {end} of partition {partition!r}"
            raise StateError("state.missing", message, _RESTORE)
        return content.entries(partition, start, end)

    def _content(self) -> _Content:
        return _content(self.folder.location, self.id)


@lru_cache(maxsize=64)
def _content(location: str, _: str) -> _Content:
    content = _Content(Folder(location))
    content.refresh()
    return content


class _Content:
    """What is known of the log in this process. Positions don't change, so it is only read on when it lacks some."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._turn = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self.chunks: list[tuple[Chunk, pa.Table]] = []
        self.ends: dict[str, int] = {}
        self.first_ends: dict[str, int] = {}
        self._parts: dict[str, list[tuple[int, pa.Table]]] = {}  # with the position of each table's first row
        self._known: set[str] | None = None

    @property
    def next_number(self) -> int:
        return self.chunks[-1][0].last + 1 if self.chunks else 0

    def known(self) -> set[str]:
        with self._turn:
            if self._known is None:  # workers don't need it
                self._known = {path for _, table in self.chunks for path in table["path"].to_pylist()}
            return self._known

    def entries(self, partition: str, start: int, end: int) -> list[Found]:
        pieces = [
            table.slice(max(0, start - offset), end - max(start, offset))
            for offset, table in self._parts.get(partition, ())
            if offset < end and offset + table.num_rows > start
        ]
        if not pieces:
            return []
        columns = pa.concat_tables(pieces).select(Found._fields).to_pydict().values()
        return [Found(*values) for values in zip(*columns, strict=True)]

    def append(self, chunk: Chunk, table: pa.Table) -> None:
        with self._turn:
            self.chunks.append((chunk, table))
            for partition in table["partition"].unique().to_pylist():
                rows = table.filter(pc.equal(table["partition"], partition))
                offset = self.ends.get(partition, 0)
                self._parts.setdefault(partition, []).append((offset, rows))
                self.ends = {**self.ends, partition: offset + rows.num_rows}
            if len(self.chunks) == 1:
                self.first_ends = self.ends
            if self._known is not None:
                self._known.update(table["path"].to_pylist())

    def refresh(self) -> None:
        """Read what the folder has and this process hasn't."""
        with self._turn:
            for rest in reversed(range(TRIES)):
                try:
                    self._read_on()
                    return
                except StateError as error:
                    if error.code != "state.missing" or not rest:  # merged into another one since it was listed
                        raise

    def _read_on(self) -> None:
        chunks, _ = covering(self._folder.names())
        if self.next_number not in {0, *(chunk.last + 1 for chunk in chunks)}:
            self._clear()  # what was read ends in the middle of a merged chunk
        for chunk in chunks:
            if chunk.first >= self.next_number:
                self.append(chunk, _from_bytes(self._folder, chunk.name))

    def merge_small(self) -> None:
        """Merge the last chunks into one, if they are many."""
        with self._turn:
            start = merge_from([(chunk, table.num_rows) for chunk, table in self.chunks])
            if start is None:
                return
            merged = Chunk(self.chunks[start][0].first, self.chunks[-1][0].last)
            table = pa.concat_tables([table for _, table in self.chunks[start:]]).combine_chunks()
            self._folder.write(merged.name, _to_bytes(table))
            known, chunks = self._known, self.chunks[:start]
            self._clear()
            for each in (*chunks, (merged, table)):
                self.append(*each)
            self._known = known
            # Also those that an earlier process wrote the merged chunk of, and did not come to delete.
            for chunk in covering(self._folder.names())[1]:
                self._folder.delete(chunk.name)


def covering(names: Sequence[str]) -> tuple[list[Chunk], list[Chunk]]:
    """The chunks that have all looks once, in order, and those that others have merged.

    >>> covering(["about.json", *(Chunk(*ends).name for ends in ((0, 0), (1, 1), (0, 1)))])
    ([Chunk(first=0, last=1)], [Chunk(first=0, last=0), Chunk(first=1, last=1)])
    """
    found = [Chunk(int(match[1]), int(match[2])) for match in map(_NAME.fullmatch, names) if match]
    chosen, others, number = list[Chunk](), list[Chunk](), 0
    for chunk in sorted(found, key=lambda chunk: (chunk.first, -chunk.last)):
        if chunk.first == number:
            chosen.append(chunk)
            number = chunk.last + 1
        elif chunk.last < number:
            others.append(chunk)
        else:
            name = Chunk(number, number).name
            raise StateError("state.missing", f"the log of files that were found lacks {name}", _RESTORE)
    return chosen, others


def merge_from(chunks: Sequence[tuple[Chunk, int]]) -> int | None:
    """From which chunk on all are merged into one, by their numbers of files; None: there is no need yet.

    A chunk is merged with smaller ones only if they have as many files together: so a file is copied a few times in its
    life, however long the log gets. The first one stays as it is: it says what was there when the job began.
    """
    single = 0
    while single < len(chunks) - 1 and chunks[-1 - single][0].first == chunks[-1 - single][0].last:
        single += 1
    if single < MERGED:
        return None
    start = len(chunks) - single
    files = sum(count for _, count in chunks[start:])
    while start > 1 and chunks[start - 1][1] <= files:
        start -= 1
        files += chunks[start][1]
    return start


def _as_table(files: Mapping[str, Sequence[Found]]) -> pa.Table:
    rows = [(partition, *found) for partition, part in files.items() for found in part]
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _to_bytes(table: pa.Table) -> bytes:
    written = pa.BufferOutputStream()
    with pa.ipc.new_file(written, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_table(table)
    return bytes(written.getvalue())


def _from_bytes(folder: Folder, name: str) -> pa.Table:
    try:
        table = pa.ipc.open_file(pa.BufferReader(folder.read(name))).read_all()
        table.validate(full=True)
    except pa.ArrowException as error:
        raise StateError("state.corrupt", f"{folder.shown_path(name)} is damaged: {error}", _RESTORE) from error
    return table
