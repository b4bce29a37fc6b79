"""Which share of the memory is free, as the files of a machine and of its containers tell it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from trimtab.worker import free_memory
from trimtab.worker.free_memory import free_memory_share

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with 3 of 4 GiB free; its process is in the control group /a/b of the second version."""
    own = tmp_path / "proc" / "self"
    own.mkdir(parents=True)
    kib = {"MemTotal": 4 << 20, "MemFree": 1 << 20, "MemAvailable": 3 << 20}
    lines = [f"{name}:  {value} kB" for name, value in kib.items()] + ["HugePages_Total:  0"]
    (tmp_path / "proc" / "meminfo").write_text("\n".join(lines))
    (own / "cgroup").write_text("0::/a/b\n")
    return tmp_path


def limit(folder: Path, most: int | str, used: int, cached: int = 0, *, is_v1: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if is_v1 else ("memory.max", "memory.current")
    for name, value in zip(names, (most, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(f"anon 7\n{'total_' * is_v1}inactive_file {cached}\n")


def share(machine: Path) -> float | None:
    return free_memory_share(machine / "proc", machine / "cgroup")


def test_without_containers_it_is_the_machine_s(machine: Path) -> None:
    assert share(machine) == 0.75
    (machine / "proc" / "self" / "cgroup").unlink()
    assert share(machine) == 0.75


@pytest.mark.parametrize("level", ["a/b", "a", ""])
def test_a_container_s_limit_counts_at_any_level(machine: Path, level: str) -> None:
    limit(machine / "cgroup" / "a" / "b", "max", GIB)
    limit(machine / "cgroup" / level, 2 * GIB, GIB)
    assert share(machine) == 0.5


def test_files_that_were_read_lately_count_as_free(machine: Path) -> None:
    limit(machine / "cgroup" / "a" / "b", 2 * GIB, 2 * GIB, GIB // 2)
    assert share(machine) == 0.25


def test_the_first_version_of_control_groups_has_a_limit_of_its_own(machine: Path) -> None:
    (machine / "proc" / "self" / "cgroup").write_text("5:cpu,cpuacct:/other\n4:memory:/a\n0::/\n")
    limit(machine / "cgroup" / "memory" / "a", 2 * GIB, GIB, is_v1=True)
    assert share(machine) == 0.5
    limit(machine / "cgroup" / "memory" / "a", 0x7FFFFFFFFFFFF000, GIB, is_v1=True)
    assert share(machine) == 0.75, "that is no limit"


def test_the_machine_counts_where_it_has_less_than_the_container_may_use(machine: Path) -> None:
    limit(machine / "cgroup" / "a", 2 * GIB, 0)
    assert share(machine) == 0.75


def test_a_system_that_does_not_tell_is_unknown(tmp_path: Path) -> None:
    assert free_memory_share(tmp_path, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\n")
    assert free_memory_share(tmp_path, tmp_path) is None


def test_a_share_of_a_moment_ago_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "_last", (time.monotonic(), 0.25))
    assert free_memory.free_memory_lately() == 0.25
    monkeypatch.setattr(free_memory, "_last", (time.monotonic() - 60, 0.25))
    monkeypatch.setattr(free_memory, "free_memory_share", lambda: 0.5)
    assert free_memory.free_memory_lately() == 0.5
    monkeypatch.setattr(free_memory, "free_memory_share", lambda: 0.75)
    assert free_memory.free_memory_lately() == 0.5
