"""One job per checkpoint: a lock that refuses a second job, and that a crash always frees.

On a local disk it's a lock of the kernel, which frees it the moment its process dies. Elsewhere it's a lease: a file
that its holder renews, and that another job may take once it has not been renewed for a minute.

Every owner has an epoch, a number that only grows. A job that was suspended may wake up after another one took over:
files carry the epoch of their owner, so that it can neither commit (`manifest.py`) nor delete what its successor wrote
(`sweep.py`).
"""

from __future__ import annotations

import datetime
import fcntl
import functools
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Self

from trimtab.errors import StateError
from trimtab.state.files import Folder, storage_errors
from trimtab.state.objects import Tag

LOCK = "lock"
RENEW_S = 10.0
EXPIRE_S = 60.0  # six renewals may fail; a job that hangs longer loses the lease, and `check` fails before it commits
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock, as written in the file."""

    host: str
    pid: int
    started_s: float
    job: str
    token: str  # empty: the holder has given it back
    renewed_s: float
    epoch: int = 0

    def __str__(self) -> str:
        """For the message to a job that is refused."""
        since = datetime.datetime.fromtimestamp(self.started_s, datetime.UTC)
        return f"process {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"


class CheckpointLock:
    """The right to write to a checkpoint: one job has it at a time, among all processes.

    `acquire` never waits. Call `check` before each commit: where the lock is a lease, another job may have taken it
    over after a minute without renewal, and then this one must stop without writing. A forked child doesn't hold it.
    """

    def __init__(self, folder: Folder, job: str = "", *, clock: Clock = time.time) -> None:
        self._hold: KernelLock | Lease = (
            KernelLock(folder, job, clock) if folder.is_local else Lease(folder, job, clock)
        )
        self._stop: threading.Event | None = None

    @property
    def epoch(self) -> int:
        """The epoch of this owner: higher than that of every owner before it."""
        return self._hold.epoch

    def acquire(self) -> Self:
        """Take the lock. Raises StateError `state.locked` naming who holds it."""
        assert self._stop is None, "the lock is held already"
        self._hold.take()
        self._stop = threading.Event()
        if isinstance(self._hold, Lease):
            renewing = (self._hold, self._stop)
            threading.Thread(target=_keep_renewing, args=renewing, name="trimtab-lease", daemon=True).start()
        return self

    def check(self) -> None:
        """Raise StateError `state.lost-lock` or `state.gone` unless the lock is still held. Call it before a commit."""
        assert self._stop is not None, "the lock is not held"
        self._hold.check()

    def release(self) -> None:
        """Give it back; does nothing if it isn't held."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None
            self._hold.give_back()

    def __enter__(self) -> Self:
        """Take it, unless it was taken before."""
        return self if self._stop is not None else self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give it back."""
        self.release()


def check_free(folder: Folder) -> None:
    """Raise StateError `state.locked` if a job holds the lock of this checkpoint; nothing is taken or changed.

    For an early error message only: a job still has to take the lock.
    """
    holder = _read_holder(folder)
    if holder is None:
        return
    if not folder.is_local:
        Lease(folder).check_free(holder)
    elif holder.token and _is_held(folder.path_of(LOCK)):
        raise _locked(folder, holder)


class KernelLock:
    """A lock of the kernel on a file; it ends with its process. The file stays, its content is for messages."""

    def __init__(self, folder: Folder, job: str = "", clock: Clock = time.time) -> None:
        self._folder, self._job, self._clock = folder, job, clock
        self._descriptor: int | None = None
        self.epoch = 0

    def take(self) -> None:
        """Take it. Raises StateError `state.locked`, or `state.gone` if the folder doesn't exist."""
        _register_forks()
        path = self._folder.path_of(LOCK)
        while True:
            with storage_errors(path, lambda: True):
                # Programs that this one starts don't inherit it: the JVM of Spark would hold it as long as it lives.
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                with storage_errors(path):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException as error:
                content = os.pread(descriptor, 4096, 0)
                os.close(descriptor)
                if isinstance(error.__cause__, BlockingIOError):
                    raise _locked(self._folder, _holder(content)) from None
                raise
            if _is_at(descriptor, path):
                break
            os.close(descriptor)  # the file was replaced between opening and locking it
        self._descriptor = descriptor
        _held.add(self)
        try:
            with storage_errors(path):
                myself = _myself(self._job, self._clock(), _holder(os.pread(descriptor, 4096, 0)))
                self._write(myself)
                self.epoch = myself.epoch
        except StateError:
            self.close()
            raise

    def check(self) -> None:
        """Check that the file with the lock's name is still the one that is locked."""
        if self._descriptor is None or not _is_at(self._descriptor, self._folder.path_of(LOCK)):
            self._folder.names()  # raises `state.gone` if the folder is missing
            raise _lost(self._folder, "its file was removed or replaced")

    def give_back(self) -> None:
        """Unlock."""
        if self._descriptor is not None:
            with suppress(OSError):  # also frees the lock if the disk is full
                holder = _holder(os.pread(self._descriptor, 4096, 0))
                if holder is not None:
                    self._write(replace(holder, token=""))
            # If only closed, a program that is being started right now could inherit the lock.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.close()

    def _write(self, holder: Holder) -> None:
        assert self._descriptor is not None
        content = _content(holder)
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))

    def close(self) -> None:
        """Close the file without unlocking it: another process may share the lock."""
        if self._descriptor is not None:
            _held.discard(self)
            os.close(self._descriptor)
            self._descriptor = None


class Lease:
    """A file that its holder renews; after `EXPIRE_S` without a renewal, another job may take it.

    It is only written on the condition that nobody else wrote it since it was read, so of several jobs that want an
    expired lease one gets it. Machines' clocks have to agree within half a minute or so.
    """

    def __init__(self, folder: Folder, job: str = "", clock: Clock = time.time) -> None:
        self._folder, self._job, self._clock = folder, job, clock
        self._myself: Holder | None = None
        self._renewing = threading.Lock()
        self.epoch = 0

    def take(self) -> None:
        """Take it if it's free or expired. Raises StateError `state.locked`."""
        content, tag = _read_lock(self._folder)
        holder = _holder(content)
        if holder is not None:
            self.check_free(holder)
        myself = _myself(self._job, self._clock(), holder)
        try:
            self._write(myself, tag)
        except FileExistsError:
            raise _locked(self._folder, _read_holder(self._folder)) from None
        self._myself, self.epoch = myself, myself.epoch

    def check_free(self, holder: Holder) -> None:
        """Raise StateError `state.locked` unless the holder has given its lease back, or it has expired."""
        silent_s = self._clock() - holder.renewed_s
        if holder.token and silent_s < EXPIRE_S:
            raise _locked(self._folder, holder, EXPIRE_S - silent_s)

    def check(self) -> None:
        """Read who holds it, and raise StateError `state.lost-lock` if it's another job."""
        with self._renewing:
            self._checked()

    def renew(self) -> None:
        """Write the present time, unless another job holds it."""
        with self._renewing:
            holder, tag = self._checked()
            self._rewrite(replace(holder, renewed_s=self._clock()), tag)

    def give_back(self) -> None:
        """Write that it is free, if this job still holds it. The file stays: it has the epoch."""
        with self._renewing, suppress(StateError):
            if self._myself is not None:
                holder, tag = self._checked()
                self._rewrite(replace(holder, token=""), tag)
        self._myself = None

    def _checked(self) -> tuple[Holder, Tag | None]:
        content, tag = _read_lock(self._folder)
        holder = _holder(content)
        if self._myself is None or holder is None:
            raise _lost(self._folder, "its file was removed or damaged")
        if holder.token != self._myself.token:
            raise self._taken_over(holder)
        return holder, tag

    def _rewrite(self, holder: Holder, tag: Tag | None) -> None:
        try:
            self._write(holder, tag)
        except FileExistsError:
            raise self._taken_over(_read_holder(self._folder)) from None

    def _taken_over(self, holder: Holder | None) -> StateError:
        who = "another job" if holder is None else holder
        return _lost(self._folder, f"it was not renewed for {EXPIRE_S:.0f} seconds and was taken over by {who}")

    def _write(self, holder: Holder, tag: Tag | None) -> None:
        if tag is None:
            self._folder.write(LOCK, _content(holder), durable=False, replace=False)
        else:
            self._folder.update(LOCK, _content(holder), tag, durable=False)


def _keep_renewing(lease: Lease, stop: threading.Event) -> None:
    while not stop.wait(RENEW_S):
        try:
            lease.renew()
        except StateError as error:
            if error.code == "state.lost-lock":
                return  # the next check raises it
            # Anything else may pass; if it doesn't, the lease expires.


def _myself(job: str, now_s: float, before: Holder | None) -> Holder:
    # Seconds, so that epochs grow also if somebody deletes the file.
    epoch = max(int(now_s), 1 if before is None else before.epoch + 1)
    return Holder(socket.gethostname(), os.getpid(), now_s, job, uuid.uuid4().hex, now_s, epoch)


def _content(holder: Holder) -> bytes:
    return json.dumps(asdict(holder)).encode() + b"\n"


def _holder(content: bytes) -> Holder | None:
    """The holder; None if the content is empty or something else."""
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None


def _read_holder(folder: Folder) -> Holder | None:
    return _holder(_read_lock(folder)[0])


def _read_lock(folder: Folder) -> tuple[bytes, Tag | None]:
    """The content of the lock's file and its tag; nothing and None if there is no file."""
    try:
        return folder.read_tagged(LOCK)
    except StateError as error:
        if error.code == "state.missing":
            return b"", None
        raise


def _is_held(path: str) -> bool:
    """Whether a process has the kernel's lock.

    Called only if the file names a holder: the check takes a shared lock for a moment, which would refuse a job that
    starts just then.
    """
    with storage_errors(path), open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _locked(folder: Folder, holder: Holder | None, expires_in_s: float | None = None) -> StateError:
    who = "another job" if holder is None else f"another job: {holder}"
    hint = "stop that job, or give this one a checkpoint of its own"
    if expires_in_s is not None:
        hint += f"; if that job is dead, the checkpoint is free in {expires_in_s:.0f} seconds"
    return StateError("state.locked", f"the checkpoint {folder.shown} is in use by {who}", hint)


def _lost(folder: Folder, why: str) -> StateError:
    return lost_lock(f"this job no longer holds the lock of the checkpoint {folder.shown}: {why}")


def lost_lock(message: str) -> StateError:
    """The error of a job that another one has taken its checkpoint from."""
    hint = "nothing was committed since; make sure that only one job uses the checkpoint, then start it again"
    return StateError("state.lost-lock", message, hint)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


_held: set[KernelLock] = set()  # also locks without other references: their files are open


@functools.cache
def _register_forks() -> None:
    """Make forked children close their copy of the lock first, which would otherwise keep it held."""
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for lock in list(_held):
        lock.close()
