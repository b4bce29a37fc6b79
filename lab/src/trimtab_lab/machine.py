"""Where a result was measured: the machine, the versions, the commit. No names of hosts, users or folders."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = ("trimtab", "numpy", "numba", "scipy", "highspy", "pymetis")
"""The packages that figures depend on."""


def machine() -> dict[str, str | int | float]:
    """Cores, processor, memory and operating system.

    >>> sorted(machine())
    ['cores', 'memory_gib', 'processor', 'system']
    """
    return {
        "cores": os.cpu_count() or 1,
        "processor": processor(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that figures depend on.

    >>> list(versions())
    ['python', 'trimtab', 'numpy', 'numba', 'scipy', 'highspy', 'pymetis']
    """
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def commit() -> str | None:
    """The commit of trimtab's own checkout, with "+changes" if files differ from it; None where there is none."""
    folder = Path(__file__).resolve().parent
    # An installed trimtab may be inside another project's checkout, whose commits are not its own.
    if _git(folder, "ls-files", "--error-unmatch", "experiment.py") is None:
        return None
    found = _git(folder, "rev-parse", "--short=12", "HEAD")
    changed = _git(folder.parent, "status", "--porcelain", "--", ".")
    return f"{found}+changes" if found and changed else found


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def processor() -> str:
    """The model of the processor."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _memory_gib() -> float:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not available on every system
        return 0.0


def version(package: str) -> str:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
