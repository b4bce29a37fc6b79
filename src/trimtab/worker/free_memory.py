"""Which share of the memory is free: of the machine's, or of what the container may use, whichever is the smaller one.

Linux tells both in files. A container's limit may stand at any level above the process's own control group.
"""

from __future__ import annotations

import time
from pathlib import Path, PurePosixPath

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")

_V1 = "memory"
"""The controller with the limit in the first version of control groups; in the second one controllers have no names."""

FRESH_S = 0.1
"""For how long a share counts as that of now: to read the files takes a millisecond or more, and a small batch asks ten
times."""

_last: tuple[float, float | None] = (float("-inf"), None)


def free_memory_lately() -> float | None:
    """As `free_memory_share`, of the last `FRESH_S` seconds."""
    global _last
    if time.monotonic() - _last[0] > FRESH_S:
        _last = (time.monotonic(), free_memory_share())
    return _last[1]


def free_memory_share(proc: Path = PROC, cgroups: Path = CGROUPS) -> float | None:
    """The share of the memory that is free now, from 0 to 1; None: this system doesn't tell."""
    shares = [share for share in (_of_machine(proc), *_of_containers(proc, cgroups)) if share is not None]
    return min(shares, default=None)


def _of_machine(proc: Path) -> float | None:
    try:
        lines = (line.split() for line in (proc / "meminfo").read_text().splitlines())
        sizes = {words[0]: int(words[1]) for words in lines if len(words) > 1}
        return min(1.0, sizes["MemAvailable:"] / sizes["MemTotal:"])
    except (OSError, KeyError, ValueError, ZeroDivisionError):
        return None


def _of_containers(proc: Path, cgroups: Path) -> list[float | None]:
    """The share of each control group that this process is in."""
    try:
        named = [line.split(":", 2) for line in (proc / "self" / "cgroup").read_text().splitlines()]
    except OSError:
        return []
    found: list[float | None] = []
    for _, controllers, path in (each for each in named if len(each) == 3):
        if controllers not in ("", _V1):
            continue
        home = cgroups / _V1 if controllers == _V1 else cgroups
        files = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers == _V1 else ("memory.max",
            "memory.current")  # fmt: skip
        own = PurePosixPath(path.lstrip("/"))
        found += [_of_group(home / level, *files) for level in (own, *own.parents)]
    return found


def _of_group(group: Path, limit_file: str, used_file: str) -> float | None:
    """The free share of one control group; None: it has no limit."""
    try:
        limit, used = int((group / limit_file).read_text()), int((group / used_file).read_text())
        kept = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # also of "max"
        return None
    if not 0 < limit < 1 << 60:  # the first version has a huge number for none
        return None
    # Files that were read lately are counted as used, and given back as soon as somebody needs the room.
    cached = int(kept.get("total_inactive_file", kept.get("inactive_file", 0)))
    return min(1.0, max(0.0, (limit - used + cached) / limit))
