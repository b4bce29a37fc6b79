"""What a driver offers to its workers: machine code by digest, and where to get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from trimtab.machine_code import shelf
from trimtab.machine_code.processor import kind
from trimtab.machine_code.shelf import Entry


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
    processor: str = field(default_factory=kind)  # of the driver

    @property
    def is_foreign(self) -> bool:
        """Whether this process runs on a processor for which the driver has nothing."""
        return self.processor != kind()

    def take_up(self) -> None:
        """Let this process, a worker, run only what is offered and what is installed."""
        shelf.accept(self.digests, lambda: {} if self.codes is None else self.codes.value)
