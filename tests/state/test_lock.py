"""One writer per checkpoint: refused while it lives, free the moment it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.state.stores import remote_folder
from trimtab.errors import StateError
from trimtab.state import lock as locks
from trimtab.state.files import Folder
from trimtab.state.lock import EXPIRE_S, CheckpointLock, KernelLock, Lease, check_free

HOLD = """
import sys, time
from trimtab.state.files import Folder
from trimtab.state.lock import CheckpointLock
CheckpointLock(Folder(sys.argv[1]), "their-job").acquire()
print("held", flush=True)
time.sleep(60)
"""

HOLD_WITH_CHILDREN = HOLD.replace(
    "time.sleep",
    """
import os, subprocess
child = os.fork()
if child:
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    time.sleep(0.2)  # until the child has begun and the program is another one
    print(child, program.pid, flush=True)
time.sleep""",
)


@contextmanager
def holder(folder: Folder, program: str = HOLD) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    command = [sys.executable, "-c", program, folder.location]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def refused(lock: CheckpointLock | Lease) -> StateError:
    with pytest.raises(StateError) as caught:
        lock.acquire() if isinstance(lock, CheckpointLock) else lock.take()
    return caught.value


def lost(lock: CheckpointLock | Lease) -> StateError:
    with pytest.raises(StateError) as caught:
        lock.check()
    return caught.value


def test_the_error_of_a_second_job_names_who_has_the_checkpoint(folder: Folder) -> None:
    with holder(folder) as process:
        error = refused(CheckpointLock(folder))
        assert error.code == "state.locked"
        assert f"process {process.pid} on {os.uname().nodename}, since 20" in error.message
        assert folder.location in error.message


def test_a_killed_job_leaves_no_lock(folder: Folder) -> None:
    with holder(folder) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with CheckpointLock(folder) as lock:
            lock.check()


def test_whether_a_checkpoint_is_free_can_be_checked_without_taking_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = remote_folder(monkeypatch)
    for each in (folder, far):
        each.make()
        check_free(each)
        assert not each.exists(locks.LOCK)
        with CheckpointLock(each), pytest.raises(StateError) as caught:
            check_free(each)
        assert caught.value.code == "state.locked"
        assert f"process {os.getpid()} on" in caught.value.message
        check_free(each)
    with holder(folder) as process:
        process.kill()
        process.wait()
        check_free(folder)
    assert folder.read(locks.LOCK), "the file still names the dead holder"


def test_the_same_process_is_refused_as_well(folder: Folder) -> None:
    with CheckpointLock(folder) as lock:
        assert refused(CheckpointLock(folder)).code == "state.locked"
        lock.check()
    with CheckpointLock(folder).acquire() as lock:
        lock.check()
    lock.release()  # twice is fine


def test_what_a_killed_job_had_started_does_not_keep_the_lock(folder: Folder) -> None:
    with holder(folder, HOLD_WITH_CHILDREN) as process:
        assert process.stdout is not None
        children = [int(pid) for pid in process.stdout.readline().split()]
        try:
            process.send_signal(signal.SIGKILL)
            process.wait()
            for child in children:
                os.kill(child, 0)  # the children are alive
            with CheckpointLock(folder) as lock:
                lock.check()
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)


def test_a_forked_child_cannot_free_its_parents_lock(folder: Folder) -> None:
    program = HOLD.replace("CheckpointLock(Folder", "lock = CheckpointLock(Folder").replace(
        "print(",
        """
import os
child = os.fork()
if child == 0:
    lock.release()
    os._exit(0)
os.waitpid(child, 0)
lock.check()
print(""",
    )
    with holder(folder, program) as process:
        assert f"process {process.pid} on" in refused(CheckpointLock(folder)).message


def test_a_lock_whose_file_was_replaced_is_lost(folder: Folder) -> None:
    with CheckpointLock(folder) as first:
        folder.delete("lock")
        with CheckpointLock(folder) as second:
            assert lost(first).code == "state.lost-lock"
            second.check()


def test_a_lock_whose_folder_vanished_says_so(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with CheckpointLock(Folder(f"{tmp_path}/here")) as lock:
        os.rename(tmp_path / "here", tmp_path / "away")
        assert lost(lock).code == "state.gone"
    assert refused(CheckpointLock(Folder(f"{tmp_path}/here"))).code == "state.gone"
    assert not (tmp_path / "here").exists()


class ManualClock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_lease_is_refused_until_it_expires(folder: Folder, clock: ManualClock) -> None:
    first, second = Lease(folder, "one", clock), Lease(folder, "two", clock)
    first.take()
    clock.now_s += EXPIRE_S - 1
    error = refused(second)
    assert error.code == "state.locked"
    assert f"process {os.getpid()} on" in error.message
    assert "free in 1 seconds" in error.hint
    first.renew()
    clock.now_s += EXPIRE_S - 1
    assert refused(second).code == "state.locked"
    clock.now_s += 1
    second.take()
    second.check()


def test_a_lease_that_was_taken_over_is_lost_and_not_taken_back(folder: Folder, clock: ManualClock) -> None:
    first, second = Lease(folder, "one", clock), Lease(folder, "two", clock)
    first.take()
    clock.now_s += EXPIRE_S
    second.take()
    assert lost(first).code == "state.lost-lock"
    with pytest.raises(StateError):
        first.renew()
    first.give_back()
    second.check()
    second.give_back()
    Lease(folder, "three", clock).take()


def test_a_lease_that_expired_but_wasnt_taken_goes_on(folder: Folder, clock: ManualClock) -> None:
    lease = Lease(folder, "one", clock)
    lease.take()
    clock.now_s += 10 * EXPIRE_S
    lease.renew()
    lease.check()
    assert refused(Lease(folder, "two", clock)).code == "state.locked"


def test_a_lease_given_back_is_free_at_once(folder: Folder, clock: ManualClock) -> None:
    lease = Lease(folder, "one", clock)
    lease.take()
    lease.give_back()
    lease.give_back()
    other = Lease(folder, "two", clock)
    other.take()
    assert lost(lease).code == "state.lost-lock"


def test_a_damaged_lease_is_free_and_its_holder_stops(folder: Folder, clock: ManualClock) -> None:
    lease = Lease(folder, "one", clock)
    lease.take()
    folder.write("lock", b"{")
    assert lost(lease).code == "state.lost-lock"
    Lease(folder, "two", clock).take()


def test_a_renewal_that_comes_too_late_does_not_bring_a_lease_back(folder: Folder, clock: ManualClock) -> None:
    lease = Lease(folder, "one", clock)
    lease.take()
    lease.give_back()
    given_back = folder.read("lock")
    with pytest.raises(StateError):
        lease.renew()
    assert folder.read("lock") == given_back


def test_a_lease_is_renewed_while_it_is_held(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "RENEW_S", 0.01)
    monkeypatch.setattr(locks, "KernelLock", Lease)  # as if the folder were remote
    with CheckpointLock(folder) as lock:
        first = folder.read("lock")
        end = time.monotonic() + 10
        while folder.read("lock") == first and time.monotonic() < end:
            time.sleep(0.01)
        assert folder.read("lock") != first
        lock.check()
    given_back = folder.read("lock")
    time.sleep(0.05)
    assert folder.read("lock") == given_back


def test_local_folders_are_locked_by_the_kernel_and_others_by_a_lease(folder: Folder) -> None:
    assert isinstance(CheckpointLock(folder)._hold, KernelLock)
    assert isinstance(CheckpointLock(Folder("s3://bucket/here"))._hold, Lease)


@pytest.mark.parametrize("kind", ["kernel", "lease", "store"])
def test_epochs_grow_with_every_owner_also_if_the_lock_was_deleted(
    kind: str, folder: Folder, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = remote_folder(monkeypatch) if kind == "store" else folder
    epochs: list[int] = []
    for step in range(6):
        lock = KernelLock(folder, "job", clock) if kind == "kernel" else Lease(folder, "job", clock)
        lock.take()
        epochs.append(lock.epoch)
        lock.give_back()
        if step == 3:
            folder.delete("lock")
            clock.now_s += 10
    assert epochs == sorted(set(epochs))
    assert epochs[0] == 1_000


def test_of_two_jobs_that_take_a_lease_at_the_same_moment_one_gets_it(
    folder: Folder, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (folder, remote_folder(monkeypatch)):
        for _ in range(2):  # when there is none yet, and when it has expired
            slow, quick = Lease(place, "slow", clock), Lease(place, "quick", clock)
            write = Lease._write

            def overtaken(self: Lease, *given: Any, quick: Lease = quick, write: Any = write) -> None:
                monkeypatch.setattr(Lease, "_write", write)
                quick.take()
                write(self, *given)

            monkeypatch.setattr(Lease, "_write", overtaken)
            assert refused(slow).code == "state.locked"
            quick.check()
            clock.now_s += EXPIRE_S


def test_a_renewal_that_hangs_until_another_job_took_over_changes_nothing(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = remote_folder(monkeypatch)
    first, second = Lease(place, "one", clock), Lease(place, "two", clock)
    first.take()
    write = Lease._write

    def hangs(self: Lease, *given: Any) -> None:
        monkeypatch.setattr(Lease, "_write", write)
        clock.now_s += EXPIRE_S
        second.take()
        write(self, *given)

    monkeypatch.setattr(Lease, "_write", hangs)
    with pytest.raises(StateError) as caught:
        first.renew()
    assert caught.value.code == "state.lost-lock"
    second.check()
