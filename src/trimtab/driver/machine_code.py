"""A stream's machine code: requested when the job starts and when an engine lacks some, offered when it is compiled.

The driver's compile process makes it; engines get it with their orders, between two batches. Until then they run plain
Python, which gives the same answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.machine_code import shelf, wanted
from trimtab.machine_code.compile_process import compile_noted
from trimtab.machine_code.compiler import Compiler
from trimtab.machine_code.offer import Offer, Sent
from trimtab.machine_code.shelf import Entry
from trimtab.machine_code.wanted import Note
from trimtab.worker.orders import EngineReport
from trimtab.worker.warming import warm_engines


class StreamMachineCode:
    """The machine code of one stream's engines.

    `plan`: a pickled `EnginePlan`. `send`: sends a value to the workers. `warm`: whether everything that the queries
    may need is compiled from the start; otherwise only what engines have lacked.
    """

    def __init__(self, compiler: Compiler, plan: bytes, send: Callable[[Any], Sent], *, warm: bool) -> None:
        self._compiler, self._send = compiler, send
        self._lock = threading.Lock()
        self._made: dict[Entry, bytes] = {}
        self._noted: set[Note] = set()
        self._offer = Offer()
        if warm:
            compiler.ask(warm_engines, plan, self._take)

    def offer(self) -> Offer:
        """The machine code that engines of the next batch may run."""
        with self._lock:
            made = dict(self._made)
        if made != self._offer.digests:
            codes = {entry: shelf.read(entry) for entry in made}
            self._offer = Offer(made, self._send({entry: code for entry, code in codes.items() if code is not None}))
        return self._offer

    def take_reports(self, reports: Sequence[EngineReport]) -> None:
        """Request machine code for what ran as plain Python, in engines or in this process."""
        for report in reports:
            self._take(report.made, True)
        missed = [note for report in reports for note in report.missed]
        fresh = tuple(note for note in dict.fromkeys((*missed, *wanted.take())) if note not in self._noted)
        if fresh:
            self._noted |= set(fresh)
            self._compiler.ask(compile_noted, fresh, self._take)

    def _take(self, made: Mapping[Entry, bytes], _is_all: bool) -> None:
        with self._lock:
            self._made |= made
