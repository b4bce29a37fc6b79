"""Where the files of a source are: all files below a folder, on a local disk or in an object store.

Files that are still being written are left out, as far as names tell. A file that was found is opened as it was then:
if it has vanished or changed since, that is an error, because a batch that is repeated has to get the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from trimtab.errors import InputError, JobError
from trimtab.state.files import Folder
from trimtab.state.objects import open_objects

UNFINISHED = (".tmp", ".temp", ".crc", "._COPYING_", ".part", ".partial", ".filepart", ".inprogress", ".swp", "~")
"""How names of files end that somebody still writes, or that belong to another file."""


class Found(NamedTuple):
    """A file as it was listed; `tag` tells contents of an object apart, and is "" on a local disk."""

    path: str  # from the source's folder, with slashes
    size_bytes: int
    modified_us: int
    tag: str


def is_left_out(name: str) -> bool:
    """Whether a file or folder of that name is none of the source's.

    >>> [is_left_out(name) for name in ("a.csv", ".a.csv", "_SUCCESS", "a.csv.tmp", "a.csv._COPYING_")]
    [False, True, True, True, True]
    """
    return name.startswith((".", "_")) or name.endswith(UNFINISHED)


@dataclass(frozen=True, slots=True)
class FileStore:
    """The files below a folder, at any depth. Links to folders are not followed: they could lead round in circles."""

    folder: Folder

    def listed(self, known: Container[str] = ()) -> list[Found]:
        """All files but those with known paths, in no order: asking a disk about a file takes longer than listing it.

        Raises JobError `job.source` if the folder can't be listed.
        """
        with _reachable(self.folder.shown):
            if self.folder.is_local:
                return list(_local_files(self.folder.location, "", known))
            return [
                Found(path, size_bytes, round(changed_s * 1e6), tag[0] or "")
                for path, size_bytes, changed_s, tag in open_objects(self.folder.location).below()
                if path not in known and not any(map(is_left_out, path.split("/")))
            ]

    def fetched(self, found: Found) -> pa.NativeFile:
        """A file that was found. An object is read at once, a local file as it is used: call `check` afterwards.

        Raises InputError `input.file` if it has vanished or changed.
        """
        with self._errors(found):
            if self.folder.is_local:
                self.check(found)
                return pa.OSFile(self._local_path(found))
            content, tag = open_objects(self.folder.location).read(found.path)
            if len(content) != found.size_bytes or (found.tag and tag[0] != found.tag):
                raise self._changed(found)
            return pa.BufferReader(content)

    def check(self, found: Found) -> None:
        """Raise InputError `input.file` if a local file isn't what was found; objects were compared by their tag."""
        if not self.folder.is_local:
            return
        with self._errors(found):
            now = os.stat(self._local_path(found))
        if (now.st_size, now.st_mtime_ns // 1000) != (found.size_bytes, found.modified_us):
            raise self._changed(found)

    def _local_path(self, found: Found) -> str:
        return os.path.join(self.folder.location, found.path)

    def _changed(self, found: Found) -> InputError:
        hint = "write each file once, under a name of its own; restore it as it was, or give the job a fresh checkpoint"
        path = self.folder.shown_path(found.path)
        return InputError("input.file", f"{path} has changed since it was found, and hasn't been read yet", hint)

    @contextmanager
    def _errors(self, found: Found) -> Iterator[None]:
        path = self.folder.shown_path(found.path)
        try:
            yield
        except FileNotFoundError as error:
            hint = "put it back; files may be deleted once the batch that reads them is committed, and not before"
            raise InputError("input.file", f"{path} has vanished since it was found", hint) from error
        except OSError as error:
            hint = "make sure that the storage answers and that the job's user may read it, and start the job again"
            raise InputError("input.file", f"{path} can't be read: {_reason(error)}", hint) from error


def _local_files(folder: str, prefix: str, known: Container[str]) -> Iterator[Found]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if path in known or is_left_out(entry.name):
                continue
            _check_name(path)
            with suppress(FileNotFoundError):  # deleted between the listing and here
                if entry.is_dir(follow_symlinks=False):
                    yield from _local_files(entry.path, f"{path}/", known)
                elif entry.is_file():
                    about = entry.stat()
                    yield Found(path, about.st_size, about.st_mtime_ns // 1000, "")


def _check_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        hint = 'rename it, or let its name begin with "." or "_", so that it is left out'
        raise JobError("job.source", f"the name of {path!r} is not UTF-8", hint) from error


@contextmanager
def _reachable(shown: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        what = "doesn't exist" if isinstance(error, FileNotFoundError) else "is not a folder"
        raise JobError("job.source", f"{shown} {what}", "give Files a folder that exists, or mount it") from error
    except OSError as error:
        hint = "make sure that the storage answers and that the job's user may read it"
        raise JobError("job.source", f"{shown} can't be listed: {_reason(error)}", hint) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error).split("\n", 1)[0]
