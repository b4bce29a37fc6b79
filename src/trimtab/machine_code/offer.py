"""What a driver offers to its workers: machine code by digest, and where to get it."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trimtab.machine_code import shelf
from trimtab.machine_code.shelf import Entry

_RELEVANT = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU implementer", "CPU part", "Features")
"""The fields of /proc/cpuinfo that a processor's instructions depend on; the others differ from core to core."""


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
        shelf.accept(self.digests, lambda: {} if self.codes is None else self.codes.value)
