"""What kind of processor this is: machine code runs on the kind that it was made for."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from pathlib import Path

_RELEVANT = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU implementer", "CPU part", "Features")
"""The fields of /proc/cpuinfo that a processor's instructions depend on; the others differ from core to core."""


@functools.cache
def kind() -> str:
    """The kind, as a hash; machines with the same hash can run each other's machine code."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:
        lines = [platform.processor()]
    relevant = sorted(line for line in lines if line.split("\t", 1)[0].split(":")[0].strip() in _RELEVANT) or lines
    chosen = [os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    return hashlib.sha256("\n".join([platform.machine(), *relevant, *chosen]).encode()).hexdigest()[:16]
