"""Where machine code is kept, as one small file for each function and combination of argument types.

installed   what `trimtab warm` and `make` built, in this Python environment: a part of the installation
cache       what was compiled later, in the user's cache (`TRIMTAB_CACHE_DIR`)
offered     in a Spark worker: what the driver sent, by digest

A worker runs what is installed and what the driver offers, and nothing else: a file of the cache is used only if its
digest is the offered one. Machine code is loaded by unpickling, so it must come from a trusted source: a file counts
only if it and its folder belong to this user, and nobody else may write them. What is installed may belong to the owner
of the Python environment, who can change every module of it anyway.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

_log = logging.getLogger("trimtab")

SUFFIX = ".kernel"
DIGEST_BYTES = 32
WRITABLE_BY_OTHERS = 0o022
LISTED_AFTER_NS = 2_000_000_000
_RELEVANT = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU implementer", "CPU part", "Features")
"""The fields of /proc/cpuinfo that a processor's instructions depend on; the others differ from core to core."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Machine code of one function for one combination of argument types.

    `name`: that of the function. `key`: a hash of everything that the machine code depends on.
    """

    name: str
    key: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.key}{SUFFIX}"


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def digest_of(code: bytes) -> bytes:
    """The hash that identifies machine code."""
    return hashlib.sha256(code).digest()


class Folder:
    """A folder of machine code. A file that is damaged, or that somebody else may have written, counts as missing.

    `owners`: users that may have written it; by default this process's own. `open_to`: the permissions to write that
    group and others may have.
    """

    def __init__(self, path: Path, owners: Collection[int] | None = None, open_to: int = 0) -> None:
        self.path = path
        self._owners = {os.geteuid()} if owners is None else set(owners)
        self._forbidden = WRITABLE_BY_OTHERS & ~open_to
        self._listed: tuple[int, frozenset[str]] | None = None  # when the folder was changed, and what it has

    def read(self, entry: Entry) -> bytes | None:
        """The code of an entry; None if there is none that counts."""
        try:
            if "/" in entry.file or not self.is_own():
                return None
            with open(self.path / entry.file, "rb", opener=_open_no_link) as file:
                if not self._is_own(os.fstat(file.fileno())):
                    return None
                content = file.read()
        except OSError:
            return None
        digest, code = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        return code if digest_of(code) == digest else None

    def write(self, entry: Entry, code: bytes) -> None:
        """Keep the code of an entry; a folder that can't be written to keeps nothing."""
        with suppress(OSError):
            self.make()
            # Written under another name and renamed: several processes may write the same entry at once.
            handle, temporary = tempfile.mkstemp(dir=self.path, suffix=".tmp")
            with os.fdopen(handle, "wb") as file:
                os.fchmod(handle, 0o644)  # what one user installs, others may run
                file.write(digest_of(code) + code)
            Path(temporary).replace(self.path / entry.file)

    def make(self) -> None:
        """Make the folder, so that only this user can write to it; raises OSError."""
        missing = [each for each in (self.path, *self.path.parents) if not each.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        for each in missing:
            each.chmod(0o755)

    def is_own(self) -> bool:
        """Whether the folder is there, belongs to one of its owners, and nobody else may write to it."""
        try:
            return self._is_own(self.path.stat())
        except OSError:
            return False

    def _is_own(self, found: os.stat_result) -> bool:
        return found.st_uid in self._owners and not found.st_mode & self._forbidden

    def has(self, name: str) -> bool:
        """Whether there is machine code for a function, for some types."""
        try:
            found = self.path.stat()
            return self._is_own(found) and name in self._names(found.st_mtime_ns)
        except OSError:
            return False

    def _names(self, changed_ns: int) -> frozenset[str]:
        """The functions of which there is machine code; the folder was last changed at that time.

        Asked for every pattern in every batch: the folder, which may have thousands of files, is listed when it has
        changed. Files that come within the same tick of the clock don't change that time, so a listing is kept only if
        it was made a while later.
        """
        if self._listed is not None and self._listed[0] == changed_ns:
            return self._listed[1]
        is_old = time.time_ns() - changed_ns > LISTED_AFTER_NS
        files = (file.removesuffix(SUFFIX) for file in os.listdir(self.path) if file.endswith(SUFFIX))
        names = frozenset(file.rpartition("-")[0] for file in files)
        self._listed = (changed_ns, names) if is_old else None
        return names

    def entries(self) -> Iterator[Entry]:
        """All entries of the folder."""
        for file in sorted(self.path.glob(f"*{SUFFIX}")):
            name, _, key = file.name.removesuffix(SUFFIX).rpartition("-")
            yield Entry(name, key)


@functools.cache
def installed() -> Folder:
    """What was built for this Python environment; empty unless `trimtab warm` was run in it."""
    chosen = os.environ.get("TRIMTAB_INSTALLED_DIR")
    environment = os.stat(sys.prefix)
    return Folder(
        Path(chosen) if chosen else Path(sys.prefix) / "share" / "trimtab" / "machine-code",
        owners={os.geteuid(), 0, environment.st_uid},
        open_to=environment.st_mode,
    )


@functools.cache
def cache() -> Folder:
    """What was compiled later: in `TRIMTAB_CACHE_DIR`, the user's cache, or a private temporary folder."""
    chosen = os.environ.get("TRIMTAB_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Folder(Path(chosen) if chosen else Path(home) / "trimtab" / "machine-code")
    with suppress(OSError):
        folder.make()
        if not chosen and folder.path.stat().st_uid == os.geteuid():
            folder.path.chmod(0o755)  # earlier versions let the user's group write to it
        if folder.is_own():
            with tempfile.TemporaryFile(dir=folder.path):
                return folder
        _log.warning(
            "%s belongs to another user, or others may write to it: no machine code is kept there", folder.path
        )
    return Folder(Path(tempfile.mkdtemp(prefix="trimtab-machine-code-")))


@dataclass(slots=True)
class _Offered:
    """What the driver offers to this process; None: this process isn't a worker."""

    digests: dict[Entry, bytes] | None = None
    names: frozenset[str] = frozenset()


_offered = _Offered()
touched: dict[Entry, bytes] = {}
"""What this process has loaded or made so far, with digests."""


def accept(offer: Mapping[Entry, bytes], fetch: Callable[[], Mapping[Entry, bytes]]) -> None:
    """From now on, load only what is installed and what was offered.

    `offer` has digests. What the cache of this machine lacks is fetched, and kept there for other processes.
    """
    known = _offered.digests or {}
    new = {entry: digest for entry, digest in offer.items() if known.get(entry) != digest}
    missing = [entry for entry, digest in new.items() if not _has_digest(cache().read(entry), digest)]
    sent = fetch() if missing else {}
    for entry in missing:
        if _has_digest(sent.get(entry), new[entry]):
            cache().write(entry, sent[entry])
    _offered.digests = {**known, **new}
    _offered.names = frozenset(entry.name for entry in _offered.digests)


def _has_digest(code: bytes | None, digest: bytes | None) -> bool:
    return code is not None and digest_of(code) == digest


def has(name: str) -> bool:
    """Whether there is machine code of a function that may be loaded, for some types."""
    if installed().has(name):
        return True
    return cache().has(name) if _offered.digests is None else name in _offered.names


def read(entry: Entry) -> bytes | None:
    """The machine code, None if there is none that may be loaded."""
    code = installed().read(entry)
    if code is None:
        code = cache().read(entry)
        if _offered.digests is not None and not _has_digest(code, _offered.digests.get(entry)):
            return None
    if code is not None:
        touched[entry] = digest_of(code)
    return code


def write(entry: Entry, code: bytes) -> None:
    """Keep what was just compiled."""
    cache().write(entry, code)
    touched[entry] = digest_of(code)


@functools.cache
def kind_of_processor() -> str:
    """A hash of the kind of this processor; machines with the same hash can run each other's machine code."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:
        lines = [platform.processor()]
    relevant = sorted(line for line in lines if line.split("\t", 1)[0].split(":")[0].strip() in _RELEVANT) or lines
    chosen = [os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    return hashlib.sha256("\n".join([platform.machine(), *relevant, *chosen]).encode()).hexdigest()[:16]


class Sent(Protocol):
    """A Spark broadcast: a value that Spark sends to every worker that reads it."""

    @property
    def value(self) -> Any:
        """What was sent."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """The machine code that the driver has for the engines: the digest of each entry, and where to get the code."""

    digests: Mapping[Entry, bytes] = field(default_factory=dict)
    codes: Sent | None = None  # by entry
    processor: str = field(default_factory=kind_of_processor)  # of the driver

    @property
    def is_foreign(self) -> bool:
        """Whether this process runs on a processor for which the driver has nothing."""
        return self.processor != kind_of_processor()

    def accept(self) -> None:
        """Let this process, a worker, run only what is offered and what is installed."""
        accept(self.digests, lambda: {} if self.codes is None else self.codes.value)
