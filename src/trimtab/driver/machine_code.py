"""A stream's machine code: requested when the job starts and when an engine lacks some, offered when it is compiled.

The driver's compile process makes it; engines get it with their orders, between two batches. Until then they run plain
Python, which gives the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trimtab.machine_code import shelf
from trimtab.machine_code.compiler import Compiler, Requested
from trimtab.machine_code.missing import take_notes
from trimtab.machine_code.shelf import Offer, Sent
from trimtab.worker.orders import EngineReport
from trimtab.worker.ready import warm_engines


class StreamMachineCode:
    """The machine code of one stream's engines.

    `plan`: a pickled `EnginePlan`. `send`: sends a value to the workers. `warm`: whether everything that the queries
    may need is compiled from the start; otherwise only what engines have lacked.
    """

    def __init__(self, compiler: Compiler, plan: bytes, send: Callable[[Any], Sent], *, warm: bool) -> None:
        self._requested, self._send = Requested(compiler), send
        self._offer = Offer()
        if warm:
            self._requested.ask(warm_engines, plan)

    def offer(self) -> Offer:
        """The machine code that engines of the next batch may run."""
        made = self._requested.made()
        if made != self._offer.digests:
            codes = {entry: shelf.read(entry) for entry in made}
            self._offer = Offer(made, self._send({entry: code for entry, code in codes.items() if code is not None}))
        return self._offer

    def take_reports(self, reports: Sequence[EngineReport]) -> bool:
        """Request machine code for what ran as plain Python, in engines or in this process; whether anything did."""
        for report in reports:
            self._requested.add(report.made)
        missed = [note for report in reports for note in report.missed] + [*take_notes()]
        self._requested.ask_noted(missed)
        return bool(missed)
