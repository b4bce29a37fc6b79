"""A folder on a local disk or in an object store, whose files appear whole or not at all.

Local folders go through the operating system, others (`s3://`, `gs://`, `abfss://`) through `objects`. A failure raises
a StateError that names the path and says what to do. A local folder that has vanished is never silently made again:
only `make` makes one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

import xxhash

from trimtab.errors import StateError
from trimtab.state import objects
from trimtab.state.objects import Objects, Tag, shown_authority

TEMPORARY = "."  # names of unfinished files start with it; they are never read, and the sweeper removes old ones
COPY_BYTES = 8 << 20

# Whether a write waits until it is on disk. Measured on a virtual disk with ext4, file and folder synced, medians of
# 30: 5 kB take 0.8 ms instead of 0.05 ms, 5 MB between 6 and 12 ms with or without. A batch takes hundreds of
# milliseconds, so by default a power cut costs no committed batch.
DURABLE = True

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_LOCKS = {errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}


@dataclass(frozen=True, slots=True, repr=False)
class Folder:
    """A folder of small and large files; it is opened in each process that uses it.

    `location` is a local path, `file://...` or the URI of an object store. A write is atomic: readers find the whole
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
        return f"{parts.scheme}://{shown_authority(parts.scheme, parts.netloc)}{parts.path}"

    def shown_path(self, name: str) -> str:
        """The path of a file in it for messages."""
        return f"{self.shown.rstrip('/')}/{name}" if name else self.shown

    def child(self, name: str) -> Folder:
        """The folder of that name in this one; nothing is made."""
        _checked(name)
        if self.is_local:
            return Folder(os.path.join(self.location, name))
        parts = urlsplit(self.location)
        quoted = name.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
        return Folder(urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{quoted}")))

    def path_of(self, name: str) -> str:
        """The local path of a file in it; only a local folder has one."""
        assert self.is_local, f"{self.shown} is not on this machine's disk"
        return os.path.join(self.location, _checked(name))

    def read(self, name: str) -> bytes:
        """The whole content of a file.

        Raises StateError `state.missing` if there is no such file, `state.gone` if there is no such folder.
        """
        return self.read_tagged(name)[0]

    def read_tagged(self, name: str) -> tuple[bytes, Tag]:
        """The whole content of a file, and a tag that tells it from other contents, for `update`."""
        with self._errors(name):
            if not self.is_local:
                return self._objects().read(_checked(name))
            with open(self.path_of(name), "rb") as file:
                content = file.read()
                return content, _tag(content)

    def write(self, name: str, data: bytes, *, durable: bool = DURABLE, replace: bool = True) -> None:
        """Write a whole file, over one of the same name if there is one: complete or not at all.

        Without `replace` a file of that name raises FileExistsError: of several processes that write it, one succeeds.
        """
        with self._errors(name):
            if not self.is_local:
                (self._objects().write if replace else self._objects().create)(_checked(name), data)
                return
            if not replace and self.exists(name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.shown_path(name))
            with self._written(name, data, durable) as temporary:
                self._rename(temporary, name, durable, replace=replace)

    def update(self, name: str, data: bytes, tag: Tag, *, durable: bool = DURABLE) -> None:
        """Replace a file that still has the content with this tag: of several processes that do, one succeeds.

        Raises FileExistsError if another content was written, StateError `state.missing` if the file was deleted.
        """
        with self._errors(name):
            if not self.is_local:
                self._objects().update(_checked(name), data, tag)
                return
            with self._written(name, data, durable) as temporary, _alone_in(self.location):
                if self.read_tagged(name)[1] != tag:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.shown_path(name))
                self._rename(temporary, name, durable)

    def publish(self, local_file: str, name: str, *, durable: bool = DURABLE) -> None:
        """Move a finished local file into the folder under this name: complete or not at all.

        From the same disk it's a rename; otherwise it is copied or uploaded first. The local file is gone afterwards.
        """
        with self._errors(name):
            if not self.is_local:
                self._objects().upload(local_file, _checked(name))
                os.unlink(local_file)
                return
            try:
                if durable:
                    sync(local_file)
                self._rename(local_file, name, durable)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with self.temporary(name) as temporary:
                    shutil.copyfile(local_file, temporary)
                    if durable:
                        sync(temporary)
                    self._rename(temporary, name, durable)
                os.unlink(local_file)

    def fetch(self, name: str, local_file: str) -> None:
        """Copy a file of the folder to a local path, and wait until it is on disk: complete or not at all."""
        target = Folder(os.path.dirname(os.path.abspath(local_file)))
        with target.temporary(os.path.basename(local_file)) as temporary, self._errors(name):
            with open(temporary, "xb") as file:
                if self.is_local:
                    with open(self.path_of(name), "rb") as source:
                        shutil.copyfileobj(source, file, COPY_BYTES)
                else:
                    self._objects().fetch(_checked(name), file)
                file.flush()
                os.fsync(file.fileno())
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
            return self._objects().exists(_checked(name) if name else "")

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._errors(name), suppress(FileNotFoundError):
            if self.is_local:
                os.unlink(self.path_of(name))
            else:
                self._objects().delete(_checked(name))

    def make(self) -> None:
        """Make the folder and those above it, if they don't exist; in an object store, see that it can be reached."""
        with self._errors(""):
            if self.is_local:
                try:
                    os.makedirs(self.location, exist_ok=True)
                except FileExistsError as error:
                    raise _not_a_folder(self.location) from error
            else:
                self._objects().exists()

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

    def remove_all(self, check: Callable[[], None]) -> None:
        """Delete the folder and everything in it, if it exists.

        `check` raises if that isn't allowed: a job that was suspended must not delete what its successor has begun.
        """
        check()
        with self._errors(""), suppress(FileNotFoundError):
            if self.is_local:
                shutil.rmtree(self.location)
            else:
                self._objects().delete_all(check)

    def sync(self) -> None:
        """Wait until the names of the files are on disk; only needed for a local disk."""
        if self.is_local:
            with self._errors(""):
                sync(self.location)

    def _entries(self) -> list[tuple[str, float]]:
        with self._errors(""):
            if self.is_local:
                found = []
                with os.scandir(self.location) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):  # deleted between the listing and here
                            found.append((entry.name, entry.stat().st_mtime))
                return sorted(found)
            return self._objects().entries()

    def _objects(self) -> Objects:
        return objects.open_objects(self.location)

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
    def _written(self, name: str, data: bytes, durable: bool) -> Iterator[str]:
        """The path of an unfinished file with this content."""
        with self.temporary(name) as temporary:
            with open(temporary, "xb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            yield temporary

    def _rename(self, source: str, name: str, durable: bool, *, replace: bool = True) -> None:
        if replace or not _linked(source, self.path_of(name)):
            os.replace(source, self.path_of(name))
        if durable:
            sync(self.location)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        # In an object store a folder without files doesn't exist, so there only a file can be missing.
        with storage_errors(self.shown_path(name), lambda: not name or (self.is_local and not self.exists())):
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
    except OSError as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n", 1)[0]
        number = getattr(error, "errno", None)
        if number in _FULL:
            hint = "free some space and start the job again: it goes on from its last committed batch"
            raise StateError("state.disk-full", f"no room left to write {path}: {reason}", hint) from error
        if isinstance(error, NotADirectoryError):
            raise _not_a_folder(path) from error
        if isinstance(error, FileNotFoundError):
            if is_gone():
                message = f"{path} doesn't exist: its folder was removed or is not mounted"
                hint = "mount or restore it and start the job again, or give the job a fresh checkpoint"
                raise StateError("state.gone", message, hint) from error
            hint = "restore the file from a copy of the checkpoint, or start the job with a fresh checkpoint"
            raise StateError("state.missing", f"{path} doesn't exist", hint) from error
        if number in _FORBIDDEN or isinstance(error, PermissionError):
            hint = "let the user that runs the job read and write there"
            raise StateError("state.access", f"no permission to use {path}: {reason}", hint) from error
        hint = "make sure that the storage answers, and start the job again: it goes on from its last committed batch"
        raise StateError("state.io", f"{path} can't be used: {reason}", hint) from error


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


def sync(path: str) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Wait until no other process is between these lines; where folders can't be locked, the job's lock has to do."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield
    finally:
        os.close(descriptor)


def _tag(content: bytes) -> Tag:
    return xxhash.xxh3_128_hexdigest(content), None


def _checked(name: str) -> str:
    """The name. Raises unless it is one: what a damaged or foreign file names must not lead out of the folder."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        hint = "names of files have no slashes; if a file of a checkpoint has one, somebody changed it: restore it"
        raise StateError("state.name", f"{name!r} can't be the name of a file", hint)
    return name
