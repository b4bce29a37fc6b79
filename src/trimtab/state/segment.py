"""Segment files: the bundles of one engine's batch, or of a merge, in one file that is mapped and not decoded.

The file: a magic word; per part its arrays (little-endian int64) and its tables (Arrow IPC streams of one record batch,
uncompressed), each at a multiple of 64 bytes; the footer (JSON: where everything is); and the tail: the footer's
checksum (xxh3_64) and length as little-endian uint64, and the magic word again. Later formats keep magic and tail.

A segment never changes once it is published. When a process opens one for the first time, it compares the whole file
with the manifest's checksum. After that, arrays and tables are wrapped when they are first used.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections import OrderedDict, UserDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from trimtab.errors import StateError
from trimtab.state.bundle import Bundle
from trimtab.state.files import DURABLE, Folder, storage_errors, sync
from trimtab.state.gathering import Int64Array
from trimtab.state.local_copies import cache_folder, check_content, check_length, keep_copy, local_copy
from trimtab.state.manifest import ALL, SegmentFile, StateRun, corrupt
from trimtab.state.runs import held_by

FORMAT = 1
MAGIC = b"trimtab segment\n"
ALIGNMENT_BYTES = 64
OPEN_SEGMENTS, MOST_OPEN_SEGMENTS = 512, 16_384
"""How many segments a process keeps open: an open one is a mapping and a few small objects. Above the first number
those are closed that weren't used for `UNUSED_S`, above the second the longest unused ones."""
UNUSED_S = 300.0

_TAIL = struct.Struct(f"<QQ{len(MAGIC)}s")  # checksum and length of the footer, magic
_ARRAYS = ("slots", "key_starts", "due_us", "due_slots")
_ATTEMPTS = 5  # another process may remove a local copy before it is opened
_Key = tuple[str, int, int, int, str]


class PartSize(NamedTuple):
    """How much a part of a segment holds, and of which groups; freed slots count among `slots`."""

    slots: int
    keys: int
    size_bytes: int
    groups: str = ALL


class Segment:
    """An open segment; as long as anything made from it lives, its pages stay mapped, also if the file is deleted."""

    def __init__(self, path: str, content: pa.Buffer, footer: Mapping[str, Any]) -> None:
        self.path = path
        self._content = content
        self._made: dict[tuple[int, ...], Any] = {}  # by place, as parts may share their arrays and tables
        self.parts = _OnDemand({name: partial(self._wrapped, part) for name, part in footer["parts"].items()})

    def part(self, name: str) -> Bundle:
        """The bundle of that name: nothing is copied, and tables are wrapped when they are first used."""
        if name not in self.parts:
            raise corrupt(self.path, f"it has no part {name!r}")
        found: Bundle = self.parts[name]
        return found

    def _wrapped(self, part: Mapping[str, Any]) -> Bundle:
        tables = {name: partial(self._table, place) for name, place in part["tables"].items()}
        starts = {name: partial(self._array, place) for name, place in part["starts"].items()}
        slots, key_starts, due_us, due_slots = (self._array(part[name]) for name in _ARRAYS)
        return Bundle(slots, key_starts, _OnDemand(tables), _OnDemand(starts), due_us, due_slots)

    def _array(self, place: Sequence[int]) -> Int64Array:
        offset, length = place
        if (offset, length) not in self._made:
            self._made[offset, length] = np.frombuffer(self._content, "<i8", length // 8, offset)
        found: Int64Array = self._made[offset, length]
        return found

    def _table(self, place: Sequence[int]) -> pa.Table:
        offset, length, rows = place
        if (offset, length, rows) not in self._made:
            self._made[offset, length, rows] = self._read(offset, length, rows)
        return self._made[offset, length, rows]

    def _read(self, offset: int, length: int, rows: int) -> pa.Table:
        try:
            table = pa.ipc.open_stream(self._content.slice(offset, length)).read_all()
        except (pa.ArrowException, OSError) as error:
            raise corrupt(self.path, f"a table can't be read: {error}") from error
        if table.num_rows != rows and table.num_columns:
            raise corrupt(self.path, f"a table has {table.num_rows} rows instead of {rows}")
        return table


def write_segment(
    folder: Folder, name: str, parts: Mapping[str, Bundle], *, durable: bool = DURABLE
) -> tuple[SegmentFile, dict[str, PartSize]]:
    """Write the parts into a file and publish it under that name: complete or not at all.

    It is written to the folder itself under a temporary name, or to the local cache if the folder is remote; then the
    cache keeps a copy. Raises StateError as `Folder` does.
    """
    near = folder if folder.is_local else Folder(str(cache_folder()))
    with near.temporary(name) as temporary:
        with storage_errors(near.shown_path(name), lambda: not near.exists()), open(temporary, "xb", 1 << 20) as file:
            output = _Output(file)
            footer, sizes = _write(output, parts)
            output.write(footer)
            output.write(_TAIL.pack(xxhash.xxh3_64_intdigest(footer), len(footer), MAGIC))
        written = SegmentFile(name, output.at, output.checksum.hexdigest())
        if not folder.is_local:
            sync(temporary)
            keep_copy(temporary, written)
        folder.publish(temporary, name, durable=durable)
    return written, sizes


def open_segment(path: str, file: SegmentFile | None = None) -> Segment:
    """Map a segment, or return the one that is open in this process.

    `file` is what the manifest says: the content is compared with it when the segment is mapped; without it only the
    footer is checked.
    Raises StateError: `state.missing`; `state.foreign` for any other kind of file; `state.newer` for a later format;
    `state.corrupt`.
    """
    with _errors(path):
        found = os.stat(path)
    checksum = "" if file is None else file.checksum
    key = (path, found.st_ino, found.st_size, found.st_mtime_ns, checksum)  # another one if the file was replaced
    return _open_segments.get(key) or _open_segments.add(key, _opened(path, file))


def segment_of(folder: Folder, file: SegmentFile) -> Segment:
    """The segment of that name in a folder; one of a remote folder is read from a local copy.

    A copy that is damaged is fetched again.
    """
    if folder.is_local:
        return open_segment(folder.path_of(file.name), file)
    for _ in range(_ATTEMPTS):
        path = local_copy(folder, file)
        try:
            return open_segment(path, file)
        except StateError as error:
            if error.code in ("state.corrupt", "state.foreign"):
                with suppress(OSError):  # whether the folder's file is damaged, too, turns out when it is fetched again
                    os.unlink(path)
            elif error.code != "state.missing":
                raise
    message = f"the local copy of segment {folder.shown_path(file.name)} was removed or damaged {_ATTEMPTS} times"
    hint = f"make sure that nothing else uses {cache_folder()}, and that the disk is sound and has room"
    raise StateError("state.io", message, hint)


def open_run(folder: Folder, segments: Mapping[str, SegmentFile], run: StateRun) -> Bundle:
    """The bundle of a run, whose segment is in that folder."""
    return segment_of(folder, segments[run.segment]).part(run.part)


def verify_segment(path: str, file: SegmentFile) -> None:
    """Read the whole file and compare it with what the manifest says.

    Raises StateError `state.corrupt` if its size or checksum differs, `state.missing` if it doesn't exist.
    """
    with _errors(path):
        check_content(path, file, path)


def check_size(path: str, file: SegmentFile) -> None:
    """Check that a file is there and as long as the manifest says; errors as of `verify_segment`."""
    with _errors(path):
        check_length(os.path.getsize(path), file, path)


def _errors(path: str) -> AbstractContextManager[None]:
    return storage_errors(path, lambda: not os.path.isdir(os.path.dirname(path)))


class _OpenSegments:
    """The segments that are open in this process; of one that is dropped, bundles in use keep their pages mapped."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, tuple[float, Segment]] = OrderedDict()  # the longest unused one first
        self._turn = threading.Lock()

    def get(self, key: _Key) -> Segment | None:
        with self._turn:
            found = self._known.pop(key, None)
            if found is None:
                return None
            self._known[key] = time.monotonic(), found[1]
            return found[1]

    def add(self, key: _Key, segment: Segment) -> Segment:
        with self._turn:
            now_s = time.monotonic()
            self._known[key] = now_s, segment
            # One batch may need more than are kept otherwise: closing those would open each of them in every batch.
            while len(self._known) > OPEN_SEGMENTS:
                used_s, _ = next(iter(self._known.values()))
                if now_s - used_s < UNUSED_S and len(self._known) <= MOST_OPEN_SEGMENTS:
                    break
                self._known.popitem(last=False)
            return segment


_open_segments = _OpenSegments()


class _OnDemand(UserDict[str, Any]):
    """Values that are made when they are first read; until then `data` has the calls that make them."""

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, partial):
            found = self.data[name] = found()
        return found


class _Output:
    """A file being written, with the checksum of what was written so far; Arrow writes its buffers straight into it."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self.at = 0
        self.checksum = xxhash.xxh3_64()
        self._file = file

    def write(self, data: Any) -> int:
        written = memoryview(data).nbytes
        self._file.write(data)
        self.checksum.update(data)
        self.at += written
        return written

    def align(self) -> int:
        """Fill up to the next offset where something may begin, and return it."""
        if rest := self.at % ALIGNMENT_BYTES:
            self.write(bytes(ALIGNMENT_BYTES - rest))
        return self.at

    def flush(self) -> None:
        """Do nothing: Arrow calls it, but closing the file flushes."""


class _Last:
    """What was written last by its name, and where: the next part may have the same."""

    def __init__(self, output: _Output) -> None:
        self._output = output
        self._arrays: dict[str, tuple[Int64Array, tuple[int, int]]] = {}
        self._tables: dict[str, tuple[pa.Table, tuple[int, int, int]]] = {}

    def array(self, name: str, array: Int64Array) -> tuple[int, int]:
        """Where the array is, which is written if it isn't the last one of this name."""
        last = self._arrays.get(name)
        if last is None or not (last[0] is array or np.array_equal(last[0], array)):
            last = self._arrays[name] = array, _write_array(self._output, array)
        return last[1]

    def table(self, name: str, table: pa.Table) -> tuple[int, int, int]:
        """Where the table is, which is written if it isn't the last one of this name."""
        last = self._tables.get(name)
        if last is None or not (last[0] is table or (len(last[0]) == len(table) and last[0].equals(table))):
            last = self._tables[name] = table, _write_table(self._output, table)
        return last[1]


def _write(output: _Output, parts: Mapping[str, Bundle]) -> tuple[bytes, dict[str, PartSize]]:
    output.write(MAGIC)
    described: dict[str, Any] = {}
    sizes: dict[str, PartSize] = {}
    last = _Last(output)
    for name, bundle in parts.items():
        began = output.align()
        part: dict[str, Any] = {array: last.array(array, getattr(bundle, array)) for array in _ARRAYS}
        part["starts"] = {table: last.array(f"starts of {table}", starts) for table, starts in bundle.starts.items()}
        part["tables"] = {table: last.table(table, bundle.tables[table]) for table in bundle.tables}
        described[name] = part
        sizes[name] = PartSize(len(bundle.slots), bundle.keys, output.at - began, held_by(bundle.slots))
    output.align()
    return json.dumps({"format": FORMAT, "parts": described}, separators=(",", ":")).encode(), sizes


def _write_array(output: _Output, array: Int64Array) -> tuple[int, int]:
    offset = output.align()
    if len(array):
        output.write(np.ascontiguousarray(array, "<i8").data)
    return offset, output.at - offset


def _write_table(output: _Output, table: pa.Table) -> tuple[int, int, int]:
    offset = output.align()
    with pa.ipc.new_stream(pa.PythonFile(output, mode="w"), table.schema) as writer:
        writer.write_table(table)
    return offset, output.at - offset, table.num_rows


def _opened(path: str, file: SegmentFile | None) -> Segment:
    with _errors(path):
        size_bytes = os.path.getsize(path)
        if not size_bytes:  # an empty file can't be mapped
            raise corrupt(path, "it is empty")
        with pa.memory_map(path) as mapped:
            content = mapped.read_buffer(size_bytes)
    if bytes(content.slice(0, len(MAGIC))) != MAGIC[:size_bytes]:
        hint = "remove it if it was put there by mistake; otherwise restore the segment from a copy of the checkpoint"
        raise StateError("state.foreign", f"{path} is not a segment of trimtab's state", hint)
    if size_bytes < len(MAGIC) + _TAIL.size:
        raise corrupt(path, f"it was cut off after {size_bytes} bytes")
    checksum, length, magic = _TAIL.unpack(content.slice(size_bytes - _TAIL.size))
    if magic != MAGIC:
        raise corrupt(path, "its end is missing")
    begin = size_bytes - _TAIL.size - length
    if begin < len(MAGIC) or xxhash.xxh3_64_intdigest(content.slice(begin, length)) != checksum:
        raise corrupt(path, "the checksum of its footer is wrong")
    if file is not None:
        check_length(size_bytes, file, path)
        if xxhash.xxh3_64_hexdigest(content) != file.checksum:
            raise corrupt(path, "its checksum is wrong")
    described = json.loads(bytes(content.slice(begin, length)))
    if described["format"] > FORMAT:
        message = f"segment {path} has format {described['format']}; this build reads up to {FORMAT}"
        raise StateError("state.newer", message, "upgrade trimtab; nothing in the checkpoint has been changed")
    return Segment(path, content, described)
