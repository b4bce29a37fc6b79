"""Local copies of segments of a remote folder: fetched once, and dropped when they take too much room.

A copy is checked when it is fetched, and again by each process that maps it (`segment.open_segment`). Processes share
the copies. A file is removed by unlinking it, so a process that has it mapped can go on reading it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pathlib
import tempfile
import time

import xxhash

from trimtab.state.files import TEMPORARY, Folder
from trimtab.state.manifest import SegmentFile, corrupt

LIMIT_BYTES = 20 << 30
"""How much room the copies may take together; the longest unused ones are removed first."""

_READ_BYTES = 16 << 20
_ABANDONED_S = 24 * 3600.0  # an unfinished file that wasn't written to for this long was left by a crash
_CHECK_EVERY = 64  # new copies of a process between two checks of the room taken
_copies = itertools.count()


@functools.cache
def _made(chosen: str) -> pathlib.Path:
    folder = pathlib.Path(chosen)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return pathlib.Path(tempfile.mkdtemp(prefix="trimtab-segments-"))


def cache_folder() -> pathlib.Path:
    """Where the copies are: in `TRIMTAB_CACHE_DIR`, the user's cache, or a private temporary folder."""
    chosen = os.environ.get("TRIMTAB_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return _made(str((pathlib.Path(chosen) if chosen else pathlib.Path(home) / "trimtab") / "segments"))


def local_copy(folder: Folder, file: SegmentFile) -> str:
    """The path of a local copy of a segment, fetched if there is none.

    Raises StateError `state.corrupt` if the folder's file isn't what the manifest says, and as `Folder.fetch` does. The
    copy may be removed as soon as other copies need the room, so open it at once.
    """
    path = _path(file)
    try:
        # The time of use, in place of the access time, so that the file stays the same one for `open_segment`.
        os.utime(path, ns=(time.time_ns(), os.stat(path).st_mtime_ns))
        return str(path)
    except OSError:
        pass
    near = Folder(str(path.parent))
    with near.temporary(path.name) as arriving:
        folder.fetch(file.name, arriving)
        check_content(arriving, file, folder.shown_path(file.name))
        os.replace(arriving, path)
    near.sync()
    _check_room()
    return str(path)


def keep_copy(local_file: str, file: SegmentFile) -> None:
    """Keep a file that is about to be uploaded as the local copy: its writer often reads it next."""
    with contextlib.suppress(OSError):  # it can be fetched again
        os.link(local_file, _path(file))
    _check_room()


def check_content(path: str, file: SegmentFile, shown: str) -> None:
    """Raise StateError `state.corrupt` unless a file is what the manifest says; `shown` is its name in the message."""
    checksum = xxhash.xxh3_64()
    size_bytes = 0
    with open(path, "rb") as opened:
        while block := opened.read(_READ_BYTES):
            checksum.update(block)
            size_bytes += len(block)
    check_length(size_bytes, file, shown)
    if checksum.hexdigest() != file.checksum:
        raise corrupt(shown, "its checksum is wrong")


def check_length(size_bytes: int, file: SegmentFile, shown: str) -> None:
    """Raise StateError `state.corrupt` unless a file is as long as the manifest says."""
    if size_bytes != file.size_bytes:
        raise corrupt(shown, f"it has {size_bytes:,} bytes instead of {file.size_bytes:,}")


def make_room(limit_bytes: int = LIMIT_BYTES) -> None:
    """Remove the longest unused copies until the rest fits, and files that crashes have left."""
    copies: list[tuple[float, int, str]] = []
    with os.scandir(cache_folder()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may be removing it, too
                found = entry.stat()
                if not entry.name.startswith(TEMPORARY):
                    copies.append((found.st_atime, found.st_size, entry.path))
                elif time.time() - found.st_mtime > _ABANDONED_S:
                    os.unlink(entry.path)
    taken = 0
    for _, size_bytes, path in sorted(copies, reverse=True):
        taken += size_bytes
        if taken > limit_bytes:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _check_room() -> None:
    if next(_copies) % _CHECK_EVERY == 0:
        make_room()


def _path(file: SegmentFile) -> pathlib.Path:
    return cache_folder() / f"{file.checksum}-{file.size_bytes}.segment"
