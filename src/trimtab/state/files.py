"""A folder on any filesystem that pyarrow knows, whose files appear whole or not at all.

Local folders go through the operating system, everything else (`hdfs://`, `s3://`, `gs://`, ...) through pyarrow.
A failure raises a StateError that names the path and says what to do. A folder that has vanished is never silently
made again: only `make` makes one.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.fs as pa_fs

from trimtab.errors import StateError

TEMPORARY = "."  # names of unfinished files start with it; they are never read, and the sweeper removes old ones
COPY_BYTES = 8 << 20

# Whether a write waits until it is on disk. Measured on a virtual disk with ext4, file and folder synced, medians of
# 30: 5 kB take 0.8 ms instead of 0.05 ms, 5 MB between 6 and 12 ms with or without. A batch takes hundreds of
# milliseconds, so by default a power cut costs no committed batch.
DURABLE = True

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_SCHEMES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for what pyarrow calls s3


@dataclass(frozen=True, slots=True, repr=False)
class Folder:
    """A folder of small and large files; it is opened in each process that uses it.

    `location` is a local path, `file://...` or a URI that pyarrow knows. A write is atomic: readers find the whole
    file or none, also when the writer dies half-way. With `durable` (local files only; object stores always are) it
    also survives a power cut once the call has returned, so what is written later never outlives it.

    >>> Folder("file:///tmp/here").child("streams").location
    '/tmp/here/streams'
    >>> Folder("s3://bucket/here?region=eu-north-1").child("streams").location
    's3://bucket/here/streams?region=eu-north-1'
    """

    location: str

    def __post_init__(self) -> None:
        """Make a local path absolute."""
        if "://" not in self.location or self.location.startswith("file://"):
            path = unquote(urlsplit(self.location).path) if "://" in self.location else self.location
            object.__setattr__(self, "location", os.path.abspath(os.path.expanduser(path)))

    def __repr__(self) -> str:
        """The location, without the credentials that a URI may hold."""
        return f"Folder({self.shown!r})"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's disk."""
        return self.location.startswith("/")

    @property
    def shown(self) -> str:
        """The location for messages: without the credentials and settings that a URI may hold."""
        if self.is_local:
            return self.location
        parts = urlsplit(self.location)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def shown_path(self, name: str) -> str:
        """The path of a file in it for messages."""
        return f"{self.shown.rstrip('/')}/{name}" if name else self.shown

    def child(self, name: str) -> Folder:
        """The folder of that name in this one; nothing is made."""
        _check(name)
        if self.is_local:
            return Folder(os.path.join(self.location, name))
        parts = urlsplit(self.location)
        return Folder(urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}")))

    def path_of(self, name: str) -> str:
        """The local path of a file in it; only a local folder has one."""
        assert self.is_local, f"{self.shown} is not on this machine's disk"
        return os.path.join(self.location, name)

    def read(self, name: str) -> bytes:
        """The whole content of a file.

        Raises StateError `state.missing` if there is no such file, `state.gone` if there is no such folder.
        """
        _check(name)
        with self._errors(name):
            if self.is_local:
                with open(self.path_of(name), "rb") as file:
                    return file.read()
            filesystem, path = self._opened(name)
            with filesystem.open_input_stream(path) as stream:
                content: bytes = stream.read()
                return content

    def write(self, name: str, data: bytes, *, durable: bool = DURABLE, replace: bool = True) -> None:
        """Write a whole file, over one of the same name if there is one: complete or not at all.

        Without `replace` a file of that name raises FileExistsError. That is safe between processes on a local disk;
        elsewhere only one of them may write at a time.
        """
        _check(name)
        if not replace and self.exists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.shown_path(name))
        with self._errors(name):
            if self.is_local:
                with self.temporary(name) as temporary:
                    with open(temporary, "xb") as file:
                        file.write(data)
                        if durable:
                            file.flush()
                            os.fsync(file.fileno())
                    self._rename(temporary, name, durable, replace=replace)
                return
            with self._remote_target(name) as (filesystem, path), filesystem.open_output_stream(path) as stream:
                stream.write(data)

    def publish(self, local_file: str, name: str, *, durable: bool = DURABLE) -> None:
        """Move a finished local file into the folder under this name: complete or not at all.

        From the same disk it's a rename; otherwise it is copied or uploaded first. The local file is gone afterwards.
        """
        _check(name)
        with self._errors(name):
            if not self.is_local:
                with (
                    open(local_file, "rb") as source,
                    self._remote_target(name) as (filesystem, path),
                    filesystem.open_output_stream(path) as stream,
                ):
                    shutil.copyfileobj(source, stream, COPY_BYTES)
                os.unlink(local_file)
                return
            try:
                if durable:
                    _sync(local_file)
                self._rename(local_file, name, durable)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with self.temporary(name) as temporary:
                    shutil.copyfile(local_file, temporary)
                    if durable:
                        _sync(temporary)
                    self._rename(temporary, name, durable)
                os.unlink(local_file)

    def fetch(self, name: str, local_file: str) -> None:
        """Copy a file of the folder to a local path: complete or not at all."""
        _check(name)
        target = Folder(os.path.dirname(os.path.abspath(local_file)))
        with target.temporary(os.path.basename(local_file)) as temporary:
            with self._errors(name):
                if self.is_local:
                    source: Any = open(self.path_of(name), "rb")  # noqa: SIM115 - closed by the with below
                else:
                    filesystem, path = self._opened(name)
                    source = filesystem.open_input_stream(path)
            with source, target._errors(os.path.basename(local_file)):
                with open(temporary, "xb") as file:
                    shutil.copyfileobj(source, file, COPY_BYTES)
                os.replace(temporary, local_file)

    def names(self) -> list[str]:
        """The names of its files and folders in order, without unfinished files. Raises StateError `state.gone`."""
        return [name for name, _ in self._entries() if not name.startswith(TEMPORARY)]

    def temporaries(self) -> list[tuple[str, float]]:
        """The unfinished files, of writers or left by a crash: names and when they were last written, in seconds."""
        return [(name, changed_s) for name, changed_s in self._entries() if name.startswith(TEMPORARY)]

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or folder of that name; without a name, whether the folder itself exists."""
        with self._errors(name):
            if self.is_local:
                return os.path.exists(self.path_of(name) if name else self.location)
            filesystem, path = self._opened(name)
            return bool(filesystem.get_file_info(path).type != pa_fs.FileType.NotFound)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        _check(name)
        with self._errors(name), suppress(FileNotFoundError):
            if self.is_local:
                os.unlink(self.path_of(name))
            else:
                filesystem, path = self._opened(name)
                filesystem.delete_file(path)

    def make(self) -> None:
        """Make the folder and those above it, if they don't exist."""
        with self._errors(""):
            if self.is_local:
                try:
                    os.makedirs(self.location, exist_ok=True)
                except FileExistsError as error:
                    raise _not_a_folder(self.location) from error
            else:
                filesystem, path = self._opened("")
                filesystem.create_dir(path, recursive=True)

    def check_writable(self) -> None:
        """Check that files can be written here, or the folder be made, without doing it; remote folders aren't checked.

        Raises StateError `state.access`, or `state.foreign` if it isn't a folder.
        """
        if not self.is_local:
            return
        near = self.location
        while not os.path.lexists(near):
            near = os.path.dirname(near)
        with self._errors(""):
            if not os.path.isdir(near):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not os.access(near, os.W_OK | os.X_OK):
                is_read_only = os.statvfs(near).f_flag & os.ST_RDONLY
                number = errno.EROFS if is_read_only else errno.EACCES
                raise PermissionError(number, os.strerror(number))

    def remove_all(self) -> None:
        """Delete the folder and everything in it, if it exists."""
        with self._errors(""), suppress(FileNotFoundError):
            if self.is_local:
                shutil.rmtree(self.location)
            else:
                filesystem, path = self._opened("")
                filesystem.delete_dir(path)

    def sync(self) -> None:
        """Wait until the names of the files are on disk; only needed for a local disk."""
        if self.is_local:
            with self._errors(""):
                _sync(self.location)

    def _entries(self) -> list[tuple[str, float]]:
        with self._errors(""):
            if self.is_local:
                found = []
                with os.scandir(self.location) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):  # deleted between the listing and here
                            found.append((entry.name, entry.stat().st_mtime))
                return sorted(found)
            filesystem, path = self._opened("")
            infos = filesystem.get_file_info(pa_fs.FileSelector(path))
            return sorted((info.base_name, (info.mtime_ns or 0) / 1e9) for info in infos)

    def _opened(self, name: str) -> tuple[Any, str]:
        filesystem, path = open_filesystem(self.location)
        return filesystem, f"{path.rstrip('/')}/{name}" if name else path

    @contextmanager
    def temporary(self, name: str) -> Iterator[str]:
        """A path for an unfinished file, which is deleted afterwards if it is still there."""
        path = self.path_of(f"{TEMPORARY}{name}.{uuid.uuid4().hex}")
        try:
            yield path
        finally:
            with suppress(OSError):
                os.unlink(path)

    @contextmanager
    def _remote_target(self, name: str) -> Iterator[tuple[Any, str]]:
        """Where to write a remote file: object stores show a file once it's complete, elsewhere it's renamed then."""
        filesystem, path = self._opened(name)
        if filesystem.type_name in ("s3", "gcs", "abfs"):
            yield filesystem, path
            return
        _, temporary = self._opened(f"{TEMPORARY}{name}.{uuid.uuid4().hex}")
        try:
            yield filesystem, temporary
            with suppress(FileNotFoundError):  # HDFS doesn't move over an existing file
                filesystem.delete_file(path)
            filesystem.move(temporary, path)
        except BaseException:
            with suppress(OSError):
                filesystem.delete_file(temporary)
            raise

    def _rename(self, source: str, name: str, durable: bool, *, replace: bool = True) -> None:
        if replace or not _linked(source, self.path_of(name)):
            os.replace(source, self.path_of(name))
        if durable:
            _sync(self.location)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        with storage_errors(self.shown_path(name), lambda: not name or not self.exists()):
            yield


@contextmanager
def storage_errors(path: str, is_gone: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Turn what a filesystem raises inside the block into a StateError that names the path and says what to do.

    `is_gone()` says whether the whole folder is missing; it is called if a file is.
    """
    try:
        yield
    except FileExistsError:
        raise  # a result that callers handle, not a failure
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n", 1)[0]
        number = getattr(error, "errno", None)
        if number in _FULL or "QuotaExceeded" in str(error):
            hint = "free some space and start the job again: it goes on from its last committed batch"
            raise StateError("state.disk-full", f"no room left to write {path}: {reason}", hint) from error
        if isinstance(error, NotADirectoryError):
            raise _not_a_folder(path) from error
        if isinstance(error, FileNotFoundError):
            if is_gone():
                hint = "mount or restore it and start the job again, or give the job a fresh checkpoint"
                raise StateError(
                    "state.gone", f"{path} doesn't exist: its folder was removed or is not mounted", hint
                ) from error
            hint = "restore the file from a copy of the checkpoint, or start the job with a fresh checkpoint"
            raise StateError("state.missing", f"{path} doesn't exist", hint) from error
        if number in _FORBIDDEN or isinstance(error, PermissionError) or "ACCESS_DENIED" in str(error):
            hint = "let the user that runs the job read and write there"
            raise StateError("state.access", f"no permission to use {path}: {reason}", hint) from error
        hint = "make sure that the storage answers, and start the job again: it goes on from its last committed batch"
        raise StateError("state.io", f"{path} can't be used: {reason}", hint) from error


@lru_cache(maxsize=64)
def open_filesystem(location: str) -> tuple[Any, str]:
    """The pyarrow filesystem of a URI, opened once per process, and the path in it."""
    scheme, colon, rest = location.partition(":")
    try:
        filesystem, path = pa_fs.FileSystem.from_uri(_SCHEMES.get(scheme, scheme) + colon + rest)
        return filesystem, path
    except (pa.ArrowException, ValueError) as error:
        hint = "give a local path, or a URI of hdfs://, s3://, gs:// or abfs://"
        reason = str(error).split("\n", 1)[0]
        raise StateError("state.location", f"no filesystem for {scheme}:// is known: {reason}", hint) from error


def _not_a_folder(path: str) -> StateError:
    return StateError("state.foreign", f"{path} is not a folder, or is inside a file", "give the path of a folder")


def _linked(source: str, target: str) -> bool:
    """Give a file a second name, which unlike renaming fails if it's taken; False if the disk has no hard links."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            return False
        raise
    return True


def _sync(path: str) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(name: str) -> None:
    assert name not in ("", ".", ".."), "a file needs a name"
    assert "/" not in name, f"{name!r} is a path, not the name of a file"
