"""The machine of a measurement."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
from importlib import metadata

PACKAGES = ("trimtab", "bytewax", "duckdb", "llvmlite", "numba", "numpy", "pyarrow", "sqlglot")


def machine(day: datetime.date) -> dict[str, str]:
    """The machine, the versions of packages, and how busy the machine was."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "date": day.isoformat(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "load when it began": load,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    listed = pathlib.Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
