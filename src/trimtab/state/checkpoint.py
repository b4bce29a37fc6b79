"""A checkpoint: the folder that holds everything a job needs to go on after a stop or a crash.

job.json                                     id, number of key groups, format
lock                                         which job writes here (lock.py)
spark/<stream>/                              Spark's own offset and commit logs
streams/<stream>/stream.json                 the stream's incarnation
streams/<stream>/plans/000000000043.json     what batch 43 does, if it was begun
streams/<stream>/manifests/000000000042.json
streams/<stream>/segments/000000000042-e3-<incarnation>-epoch<number>-<uuid>.segment
streams/<stream>/outbox/                     large outputs, until sinks have taken them
streams/<stream>/kafka-<digest>.sink         that a Kafka sink has written its number to Kafka

A stream's incarnation lasts from its first start until its state is deleted. Each counts its batches from zero, so
a sink identifies a batch by its number and the incarnation.
"""

from __future__ import annotations

import re
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from trimtab.errors import JobError, StateError
from trimtab.state.files import Folder
from trimtab.state.lock import LOCK
from trimtab.state.manifest import seal, unseal
from trimtab.state.objects import shown_authority

JOB, STREAM = "job.json", "stream.json"
FORMAT = 1
MAX_KEY_GROUPS = 32_768  # a slot has fifteen bits for its group
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_EPOCH = re.compile(r"-epoch(\d+)-")


@dataclass(frozen=True, slots=True)
class StreamFolders:
    """Where the files of one stream are."""

    home: Folder
    manifests: Folder
    segments: Folder
    plans: Folder
    outbox: Folder  # outputs that are too large for a report, until sinks have taken them

    @classmethod
    def of(cls, home: Folder) -> StreamFolders:
        """The folders of the stream whose folder this is."""
        return cls(home, *(home.child(name) for name in ("manifests", "segments", "plans", "outbox")))

    def make(self) -> None:
        """Make the folders. Only when a job starts: a folder that is missing later is an error."""
        for folder in (self.home, self.manifests, self.segments, self.plans, self.outbox):
            folder.make()

    def incarnation(self) -> str:
        """The incarnation, which is created and written down before the first batch if there is none."""
        if not self.home.exists(STREAM):
            body = {"incarnation": uuid.uuid4().hex, "began_at_s": time.time()}
            self.home.write(STREAM, seal(FORMAT, body), replace=False)
        path = self.home.shown_path(STREAM)
        return unseal(self.home.read(STREAM), path, FORMAT, lambda body: str(body["incarnation"]))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A job's checkpoint; `job` is its id, `key_groups` is fixed for its life."""

    folder: Folder
    job: str
    key_groups: int

    @staticmethod
    def open(location: str, key_groups: int) -> Checkpoint:
        """Open the checkpoint at a location, or make one if the location is empty or missing.

        Raises JobError `job.key-groups` if it was made with another number of key groups, and StateError
        `state.foreign` if something else is there; nothing is touched then.
        """
        if not 1 <= key_groups <= MAX_KEY_GROUPS:
            message = f"{key_groups} key groups are not between 1 and {MAX_KEY_GROUPS:,}"
            raise JobError("job.key-groups", message, "leave out key_groups to have 1,024 of them")
        if (found := Checkpoint.look(location, key_groups)) is not None:
            return found
        folder = Folder(location)
        folder.make()
        body = {"id": uuid.uuid4().hex, "key_groups": key_groups, "made_at_s": time.time()}
        with suppress(FileExistsError):  # another job made it first; the lock decides between the two
            folder.write(JOB, seal(FORMAT, body), replace=False)
        made = Checkpoint.look(location, key_groups)
        assert made is not None
        return made

    @staticmethod
    def look(location: str, key_groups: int) -> Checkpoint | None:
        """The checkpoint that `open` would open, None where it would make one; nothing is made.

        Raises as `open` does.
        """
        folder = Folder(location)
        if not folder.exists():
            return None
        if JOB not in (names := folder.names()):
            if set(names) - {LOCK}:
                raise _foreign(folder)
            return None
        checkpoint = _read(folder)
        if checkpoint.key_groups != key_groups:
            raise JobError(
                "job.key-groups",
                f"the checkpoint {folder.shown} has {checkpoint.key_groups} key groups, not {key_groups}",
                f"the number of key groups is fixed for a job's life: give key_groups={checkpoint.key_groups}, "
                "or a fresh checkpoint",
            )
        return checkpoint

    @staticmethod
    def existing(location: str) -> Checkpoint:
        """The checkpoint at a location, for reading; nothing is ever made.

        Raises StateError `state.missing` or `state.foreign`.
        """
        folder = Folder(location)
        if not folder.exists():
            message = f"there is no checkpoint at {folder.shown}"
            raise StateError("state.missing", message, "give the folder that the job has as its checkpoint")
        if JOB not in folder.names():
            raise _foreign(folder)
        return _read(folder)

    def stream(self, name: str) -> StreamFolders:
        """The folders of a stream; `make` them when the job starts."""
        return StreamFolders.of(self.folder.child("streams").child(safe_name(name)))

    def streams(self) -> list[str]:
        """The names of the streams that have state here."""
        if not self.folder.exists("streams"):
            return []
        return sorted(unquote(name.replace("~", "%")) for name in self.folder.child("streams").names())

    def spark(self, name: str) -> str:
        """Where Spark keeps its own logs of a stream, written as Spark understands it."""
        return spark_location(self.folder.child("spark").child(safe_name(name)))


def spark_location(folder: Folder) -> str:
    """The location of a folder, written as Spark understands it."""
    if folder.is_local:
        return f"file://{folder.location}"  # not a bare path: Spark's default filesystem may be another one
    parts = urlsplit(folder.location)
    scheme = "s3a" if parts.scheme == "s3" else parts.scheme
    # Spark has settings of its own for the options and credentials in a URI, and takes paths unquoted.
    return f"{scheme}://{shown_authority(parts.scheme, parts.netloc)}{unquote(parts.path)}"


def safe_name(name: str) -> str:
    """A stream's name as the name of a folder: different names give different folders on every filesystem.

    >>> safe_name("ticks"), safe_name("a/b.c")
    ('ticks', 'a~2Fb~2Ec')
    """
    return _UNSAFE.sub(lambda found: "".join(f"~{byte:02X}" for byte in found[0].encode()), name)


def segment_name(batch: int, maker: str, incarnation: str, epoch: int = 0) -> str:
    """A new name for a segment file: its batch, its maker, the stream's incarnation and the owner's epoch."""
    return f"{batch:012d}-{maker}-{incarnation[:8]}-{own_name(epoch)}.segment"


def own_name(epoch: int) -> str:
    """The end of a new file's name: the epoch of its owner, and what makes it unique."""
    return f"epoch{epoch}-{uuid.uuid4().hex}"


def epoch_of(name: str) -> int:
    """The epoch of a file's owner, by the name of the file; 0 for files of older builds.

    >>> epoch_of(segment_name(42, "e3", "c0ffee00", epoch=7)), epoch_of("000000000042-e3-c0ffee00-1234.segment")
    (7, 0)
    """
    found = _EPOCH.search(name)
    return int(found[1]) if found else 0


def _read(folder: Folder) -> Checkpoint:
    def read(body: dict[str, Any]) -> Checkpoint:
        return Checkpoint(folder, body["id"], body["key_groups"])

    return unseal(folder.read(JOB), folder.shown_path(JOB), FORMAT, read)


def _foreign(folder: Folder) -> StateError:
    return StateError(
        "state.foreign",
        f"{folder.shown} is not empty and not a checkpoint: it has no {JOB}",
        "give an empty or a new folder; nothing was touched",
    )
