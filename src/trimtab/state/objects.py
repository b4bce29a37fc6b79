"""Folders in object stores (S3, Google Cloud Storage, Azure), through the package obstore.

A store has no folders: one exists as long as something is in it. What a folder of a checkpoint needs beyond reading and
writing is a write on a condition: create an object only if there is none, replace it only if it is the one that was
read. Every operation may be repeated, so what a passing fault interrupts is tried again for `RETRY_S`.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from types import ModuleType
from typing import IO, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from trimtab.errors import StateError

Tag = tuple[str | None, str | None]
"""Which content a file had when it was read or written: the store's entity tag, and its version."""

RETRY_S = 60.0
"""How long an operation is repeated if the store is busy or can't be reached."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
PART_BYTES = 8 << 20  # files are fetched in parts, so that a fault doesn't cost the whole file

SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss"}
"""The schemes of locations that are object stores, also by Hadoop's names, and what obstore calls them."""
_WITH_CONTAINER = ("abfs", "abfss")  # abfss://container@account/path: what stands before the @ isn't a user
_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d")  # but for time-outs and "too many requests"
Answer = TypeVar("Answer")


def shown_authority(scheme: str, authority: str) -> str:
    """The bucket, or container and account, of a location, without credentials.

    >>> shown_authority("s3", "id:secret@bucket"), shown_authority("abfss", "container@account.dfs.core.windows.net")
    ('bucket', 'container@account.dfs.core.windows.net')
    """
    user, at, host = authority.rpartition("@")
    return f"{user.partition(':')[0]}{at}{host}" if scheme in _WITH_CONTAINER else host


@lru_cache(maxsize=256)
def open_objects(location: str) -> Objects:
    """The objects of a folder; its store is opened once in each process.

    Raises StateError `state.location` for schemes and options that are not known, or if obstore isn't installed.
    """
    parts = urlsplit(location)
    return Objects(_open_store(parts.scheme, parts.netloc, parts.query), unquote(parts.path).strip("/"))


@lru_cache(maxsize=64)
def _open_store(scheme: str, authority: str, query: str) -> Any:
    if scheme not in SCHEMES:
        hint = "give a local path (also of a mounted network disk), or a URI of s3://, gs:// or abfss://"
        raise StateError("state.location", f"trimtab keeps no files in {scheme}://", hint)
    shown = f"{scheme}://{shown_authority(scheme, authority)}"
    obstore = _obstore(shown)
    options = dict(parse_qsl(query))
    options.pop("allow_bucket_creation", None)  # Arrow has this option, too; trimtab never makes a bucket
    protocol = options.pop("scheme", "https")
    if "endpoint_override" in options:
        endpoint = options.pop("endpoint_override")
        options["endpoint"] = endpoint if "://" in endpoint else f"{protocol}://{endpoint}"
    user, _, host = authority.rpartition("@")
    if user and scheme not in _WITH_CONTAINER:
        name, _, secret = user.partition(":")
        options |= {"access_key_id": unquote(name), "secret_access_key": unquote(secret)}
    is_plain = options.get("endpoint", os.environ.get("AWS_ENDPOINT_URL", "")).startswith("http://")
    try:
        return obstore.store.from_url(
            f"{SCHEMES[scheme]}://{authority if scheme in _WITH_CONTAINER else host}",
            config=options,
            client_options={"allow_http": True} if is_plain else None,
            # What takes longer than this is repeated by `_retried`, which knows how to repeat conditional writes.
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=10)},
        )
    except (obstore.exceptions.BaseError, ValueError, TypeError) as error:
        hint = "options are those of Arrow (region, endpoint_override, scheme) or of obstore"
        message = f"{shown} can't be opened: {str(error).splitlines()[0]}"
        raise StateError("state.location", message, hint) from error


def _obstore(shown: str) -> ModuleType:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        message = f"{shown} is in an object store, which needs the package obstore"
        raise StateError("state.location", message, "pip install 'trimtab[remote]'") from error
    return obstore


class Objects:
    """The objects below a prefix, as the files of a folder. Raises OSError of the kinds that a disk raises."""

    def __init__(self, store: Any, prefix: str) -> None:
        self._store, self._prefix = store, prefix
        self._obstore = _obstore(prefix)

    def read(self, name: str) -> tuple[bytes, Tag]:
        """The content of an object, and its tag."""

        def work() -> tuple[bytes, Tag]:
            found = self._obstore.get(self._store, self._path(name))
            return bytes(found.bytes()), _tag(found.meta)

        return self._retried(work)

    def write(self, name: str, data: bytes) -> None:
        """Write an object, over one of the same name if there is one."""
        self._retried(lambda: self._obstore.put(self._store, self._path(name), data))

    def create(self, name: str, data: bytes) -> None:
        """Write a new object. Raises FileExistsError if there is one of that name with another content."""
        self._written_if("create", name, data)

    def update(self, name: str, data: bytes, tag: Tag) -> None:
        """Replace an object that has this tag. Raises FileExistsError if it has another content now."""
        e_tag, version = tag
        condition = {"e_tag": e_tag} if version is None else {"e_tag": e_tag, "version": version}
        self._written_if(condition, name, data)

    def upload(self, local_file: str, name: str) -> None:
        """Write a local file as an object, in parts if it is large."""

        def work() -> None:
            with open(local_file, "rb") as source:
                self._obstore.put(self._store, self._path(name), source)

        self._retried(work)

    def fetch(self, name: str, target: IO[bytes]) -> None:
        """Copy an object into a local file, in parts."""
        path = self._path(name)
        size_bytes = self._retried(lambda: self._obstore.head(self._store, path)["size"])

        def part(start: int) -> Any:
            end = min(start + PART_BYTES, size_bytes)
            return self._retried(lambda: self._obstore.get_range(self._store, path, start=start, end=end))

        for start in range(0, size_bytes, PART_BYTES):
            target.write(part(start))

    def entries(self) -> list[tuple[str, float]]:
        """The names of objects and folders in it, with the seconds when they were last written (of folders: 0)."""
        found = self._retried(lambda: self._obstore.list_with_delimiter(self._store, self._prefix))
        names = {prefix.rpartition("/")[2]: 0.0 for prefix in found["common_prefixes"]}
        for each in found["objects"]:
            if each["path"] != self._prefix:  # Arrow writes empty objects in place of folders
                names.setdefault(each["path"].rpartition("/")[2], each["last_modified"].timestamp())
        return sorted(names.items())

    def below(self) -> list[tuple[str, int, float, Tag]]:
        """All objects at any depth: path from here, size in bytes, seconds when it was last written, and tag."""
        above = len(self._prefix) + 1 if self._prefix else 0

        def work() -> list[tuple[str, int, float, Tag]]:
            return [
                (each["path"][above:], each["size"], each["last_modified"].timestamp(), _tag(each))
                for chunk in self._obstore.list(self._store, self._prefix or None)
                for each in chunk
                if len(each["path"]) > above  # Arrow writes empty objects in place of folders
            ]

        return self._retried(work)

    def exists(self, name: str = "") -> bool:
        """Whether there is an object of that name, or anything below it."""
        path = self._path(name)

        def below() -> bool:
            return any(len(chunk) for chunk in self._obstore.list(self._store, path, chunk_size=1))

        try:
            if name:
                self._retried(lambda: self._obstore.head(self._store, path))
                return True
        except FileNotFoundError:
            pass
        return self._retried(below)

    def delete(self, name: str) -> None:
        """Delete an object. Some stores raise FileNotFoundError if there is none."""
        self._retried(lambda: self._obstore.delete(self._store, self._path(name)))

    def delete_all(self, check: Callable[[], None]) -> None:
        """Delete everything in it; `check` is called again and again, and raises if that isn't allowed any more."""

        def work() -> None:
            for chunk in self._obstore.list(self._store, self._prefix):
                check()
                self._obstore.delete(self._store, [each["path"] for each in chunk])

        self._retried(work)

    def _written_if(self, condition: Any, name: str, data: bytes) -> None:
        path = self._path(name)
        try:
            self._retried(lambda: self._obstore.put(self._store, path, data, mode=condition, use_multipart=False))
        except FileExistsError:
            # The answer to an earlier try may have been lost. Then the object is what this one wrote: contents of
            # different writers differ.
            if self.read(name)[0] != data:
                raise

    def _path(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    def _retried(self, work: Callable[[], Answer]) -> Answer:
        end_s, pause_s = time.monotonic() + RETRY_S, FIRST_PAUSE_S
        while True:
            try:
                with self._errors():
                    return work()
            except _PassingError as error:
                if time.monotonic() + pause_s > end_s:
                    raise OSError(errno.EIO, error.args[0]) from error
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # so that engines don't come back all at once
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what the operating system would raise for a file."""
        kinds = self._obstore.exceptions
        try:
            yield
        except (kinds.NotFoundError, FileNotFoundError) as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
        except (kinds.AlreadyExistsError, kinds.PreconditionError) as error:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        except (kinds.PermissionDeniedError, kinds.UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, _reason(error)) from error
        except kinds.GenericError as error:
            if "status code: 404" in str(error):  # there is no such bucket
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
            if _REFUSED.search(str(error)):
                raise OSError(errno.EIO, _reason(error)) from error
            raise _PassingError(_reason(error)) from error
        except kinds.BaseError as error:
            raise OSError(errno.EIO, _reason(error)) from error


class _PassingError(Exception):
    """A fault after which another try may succeed."""


def _tag(meta: Any) -> Tag:
    return meta.get("e_tag"), meta.get("version")


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
