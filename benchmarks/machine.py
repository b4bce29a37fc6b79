"""The machine of a measurement."""

from __future__ import annotations

import datetime
import os
import platform

from trimtab_lab.machine import processor, version

PACKAGES = ("trimtab", "bytewax", "duckdb", "llvmlite", "numba", "numpy", "pyarrow", "sqlglot")


def machine(day: datetime.date) -> dict[str, str]:
    """The machine, the versions of packages, and how busy the machine was."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "date": day.isoformat(),
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "load when it began": load,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }
