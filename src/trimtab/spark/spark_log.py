"""Spark's own log of a stream on a local disk: synced, so that it outlasts a power cut, and repaired after one.

Spark renames the files of its log into place and doesn't wait for the disk: a power cut can leave them empty or cut
off, and Spark then refuses to start. Before the plan of a batch is written, which is its first lasting trace, what
Spark has logged of it is synced. So a batch with a plan has a whole log, and a damaged file of a batch without a plan
can be removed: Spark makes that batch again, and no sink has seen it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from trimtab.driver.machine import Driver, out_of_step
from trimtab.errors import StateError
from trimtab.state.files import Folder, sync

_log = logging.getLogger("trimtab")


class SparkLog:
    """The folder in which Spark logs the batches of a stream.

    metadata      the query's id
    offsets/N     which rows batch N has; written before the batch
    commits/N     that batch N is done
    sources/0/N   what source 0 has to remember; for files, which ones it found then
    """

    def __init__(self, folder: Folder) -> None:
        self._folder, self.offsets = folder, folder.child("offsets")
        self._synced: dict[str, set[str]] = {}  # names by folder
        self.last = -1  # the last batch that was logged when the job started; Spark may bring it again

    def sync(self) -> None:
        """Wait until what was logged of the batches begun so far is on disk; commits and checksums may be lost."""
        if not self._folder.is_local:
            return
        for folder in (self._folder, self.offsets, self._child("sources"), *self._sources()):
            with os.scandir(folder.location) as entries:
                found = {entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")}
            new = found - self._synced.get(folder.location, set())
            for name in new:
                sync(folder.path_of(name))
            if new or folder.location not in self._synced:
                sync(folder.location)
            self._synced[folder.location] = found

    def resume(self, driver: Driver) -> None:
        """Repair the log for a driver that goes on, and check that both belong together.

        Raises StateError `state.missing-version` if Spark has lost its log and would start over: its batches would be
        taken for committed ones. Raises as `repair` does.
        """
        last, known, unfinished = driver.next_of_spark - 1, driver.known, driver.unfinished
        begun = None if unfinished is None else unfinished.spark_batch
        self.repair(last if begun is None else begun)
        self.last = max((number for number, _ in _numbered(self.offsets)), default=-1)
        is_needed = known is not None and known.spark_batch is not None and not known.closed
        if is_needed and not self.offsets.exists(str(last)):
            stream, logs = driver.identity.stream, self.offsets.shown
            raise out_of_step(f"the state of stream {stream} ends with Spark's batch {last}, which {logs} lacks")

    def forget(self, check: Callable[[], None]) -> None:
        """Delete the log, so that Spark begins as the DataFrame says; `check` raises if that isn't allowed."""
        self._folder.remove_all(check)

    def read_up_to(self, batch: int | None) -> str:
        """Up to where Spark has read with a batch, as it logged it; "" if that can't be found."""
        name = str(batch)
        if batch is None or not self.offsets.exists(name):
            return ""
        lines = self.offsets.read(name).decode(errors="replace").splitlines()[2:]
        return ", ".join(line for line in lines if line != "-")

    def repair(self, last: int) -> None:
        """Remove damaged files that nothing depends on; `last` is the last Spark batch that has a plan or is committed.

        Raises StateError `state.corrupt` if such a batch is damaged; -1: there is none.
        """
        if not self._folder.is_local or not self._folder.exists():
            return
        if _is_damaged(self._folder, "metadata", lines=1):
            self._remove(self._folder, "metadata")
        self._repair_offsets(last)
        for name in _damaged(self._child("commits"), lines=2).values():
            self._remove(self._child("commits"), name)  # Spark brings the batch again; a committed one is skipped
        for place, folder in enumerate(self._sources()):
            logged = self._logged(place)
            for number, name in _damaged(folder, lines=0).items():
                if number > logged:
                    self._remove(folder, name)
        for folder in (self._folder, self.offsets, self._child("commits"), *self._sources()):
            _remove_cut_checksums(folder)
            _remove_leftovers(folder)

    def _repair_offsets(self, last: int) -> None:
        offsets = self.offsets
        for number, name in _damaged(offsets, lines=3).items():
            if number <= last:
                raise StateError(
                    "state.corrupt",
                    f"{offsets.shown_path(name)} is empty or cut off, though the rows of that batch are in the state: "
                    "the disk has lost what it had confirmed",
                    f"restore the folder {self._folder.shown} from a copy that has this file whole, or start with a "
                    "fresh checkpoint",
                )
            self._remove(offsets, name)

    def _logged(self, place: int) -> int:
        """Up to which entry of a source's own log the last batch reads; -1: there is no batch yet."""
        offsets = self.offsets
        names = _numbered(offsets)
        if not names:
            return -1
        lines = offsets.read(names[-1][1]).decode().splitlines()[2:]
        known = json.loads(lines[place]) if place < len(lines) and lines[place].startswith("{") else {}
        # A source whose offsets are no such numbers may depend on all that it logged.
        return int(known["logOffset"]) if isinstance(known.get("logOffset"), int) else names[-1][0]

    def _remove(self, folder: Folder, name: str) -> None:
        _log.warning("%s was cut off, as by a power cut; Spark makes it again", folder.shown_path(name))
        for each in (name, f".{name}.crc"):
            folder.delete(each)

    def _child(self, name: str) -> Folder:
        return self._folder.child(name)

    def _sources(self) -> Iterator[Folder]:
        sources = self._child("sources")
        for name in sorted(sources.names() if sources.exists() else (), key=lambda name: (len(name), name)):
            if name.isdigit():
                yield sources.child(name)


def _numbered(folder: Folder) -> list[tuple[int, str]]:
    """The files of batches in order; some are named N.compact."""
    names = folder.names() if folder.exists() else []
    return sorted((int(number), name) for name in names if (number := name.removesuffix(".compact")).isdigit())


def _damaged(folder: Folder, *, lines: int) -> dict[int, str]:
    return {number: name for number, name in _numbered(folder) if _is_damaged(folder, name, lines=lines)}


def _remove_cut_checksums(folder: Folder) -> None:
    """Remove checksums (.NAME.crc) that are not whole: Hadoop can read a file without them, but not with wrong ones."""
    for name in folder.names() if folder.exists() else ():
        checksums = Path(folder.path_of(f".{name}.crc"))
        if checksums.exists():
            content, blocks = checksums.read_bytes(), -(-os.path.getsize(folder.path_of(name)) // 512)
            if content[:4] != b"crc\0" or len(content) != 8 + 4 * blocks:
                checksums.unlink()


def _remove_leftovers(folder: Folder) -> None:
    """Remove files that Spark was writing when it ended, and checksums of files that aren't there.

    They are hidden, and Spark refuses to begin a query whose folder of offsets has one and nothing else.
    """
    if not folder.exists():
        return
    names = {entry.name for entry in os.scandir(folder.location) if entry.is_file()}
    whole = {f".{name}.crc" for name in names if not name.startswith(".")}
    for name in names - whole:
        if name.startswith(".") and name.endswith((".tmp", ".crc")):
            os.unlink(folder.path_of(name))


def _is_damaged(folder: Folder, name: str, *, lines: int) -> bool:
    """Whether a file is empty, or ends in zeros that were never written.

    `lines`: how many lines of JSON it has at least, its version and "-" counted; 0: only its source knows.
    """
    if not folder.exists(name):
        return False
    content = folder.read(name)
    if not content or content.endswith(b"\0"):
        return True
    found = content.splitlines() if lines else []
    return len(found) < lines or not all(_is_json(line) for line in found if not line.startswith((b"v", b"-")))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
