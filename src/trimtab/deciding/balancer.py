"""Between the pipeline and the coordinator: decisions are made beside the stream, and applied when they are ready.

A batch waits only `HOLD_S` for the decision on the batch before. If it isn't ready by then, the batch runs with the
placement as it is, and a later batch applies the decision: planning never holds the stream up.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from trimtab.deciding import decision_log
from trimtab.deciding.actions import applied
from trimtab.deciding.coordinator import Coordinator, Decision
from trimtab.deciding.decision_log import Entry
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance
from trimtab.errors import StateError
from trimtab.machine_code.compiler import Compiler
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.state.files import Folder

_log = logging.getLogger("trimtab")

HOLD_S = 0.15
"""How long a batch may wait for a decision."""
STOP_S = 5.0
"""How long the end of a job waits for the last decision."""


class Balancer:
    """Asks the coordinator after each batch, in a thread of its own, and keeps the log.

    `compiler`: compiles the coordinator's planner; None: it is compiled already.
    """

    def __init__(self, coordinator: Coordinator, log: Folder, compiler: Compiler | None = None) -> None:
        self._coordinator, self._log = coordinator, log
        self._log.make()
        self._is_compiled = threading.Event()
        if compiler is None:
            self._is_compiled.set()
        else:
            compiler.ask(warm_planner, (coordinator.balance, coordinator.split), self._compiled)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._pending: list[tuple[Observation, Future[Decision]]] = []
        self._is_first = True
        self.latest: Decision | None = None
        # A daemon: neither stopping nor the end of the process waits for a planner that is still running.
        self._thread = threading.Thread(target=self._run, name="trimtab-balance", daemon=True)
        self._thread.start()

    def consider(self, observed: Observation) -> None:
        """Let the coordinator decide on a committed batch, and log the decision; returns at once."""
        observed = replace(observed, is_planner_compiled=self._is_compiled.is_set())
        decision: Future[Decision] = Future()
        self._pending.append((observed, decision))
        self._work.put(partial(self._decide, observed, decision, self._is_first))
        self._is_first = False

    def changed(self, placement: Placement) -> Placement:
        """The placement with all decisions so far applied; waits up to `HOLD_S` for the last one."""
        until = time.monotonic() + HOLD_S
        while self._pending:
            observed, future = self._pending[0]
            try:
                decision = future.result(max(0.0, until - time.monotonic()))
            except TimeoutError:
                break
            except Exception:
                # The stream can go on without a decision: nothing moves.
                _log.warning("the coordinator failed on batch %d; nothing moves", observed.batch, exc_info=True)
            else:
                self.latest = decision
                if decision.actions and observed.placement == placement:
                    placement = applied(decision.actions, placement)
                # Otherwise the placement has changed in the meantime, and the plan was for the old one.
            self._pending.pop(0)
        return placement

    def stop(self) -> None:
        """End the thread; the decision it works on is finished and logged, if that takes at most `STOP_S`."""
        self._work.put(None)
        self._thread.join(STOP_S)

    def _compiled(self, _made: object, is_all: bool) -> None:
        if is_all:
            self._work.put(self._load_planner)

    def _load_planner(self) -> None:
        """Load the compiled planner in this thread, where no batch waits for it; from then on it is used."""
        try:
            with if_missing(Missing.REFUSE):
                self._coordinator.warm()
        except Exception:
            _log.warning("the compiled planner can't be loaded; a plain one keeps deciding", exc_info=True)
        else:
            self._is_compiled.set()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _decide(self, observed: Observation, decided: Future[Decision], is_first: bool) -> None:
        try:
            # An optimising planner is of no use as plain Python: it would take minutes.
            with if_missing(Missing.REFUSE if observed.is_planner_compiled else Missing.PLAIN):
                decision = self._coordinator.step(observed)
        except Exception as error:  # `changed` reports it
            decided.set_exception(error)
            return
        decided.set_result(decision)
        own = self._coordinator
        entry = Entry(observed, decision, own.balance, own.scale, own.interval_s, is_first, own.split)
        try:
            decision_log.write(self._log, entry)
        except StateError as error:
            _log.warning("batch %d is missing in the coordinator's log: %s", observed.batch, error)


def warm_planner(policy: tuple[Balance | None, str | None]) -> None:
    """Let a coordinator's planner decide on made-up loads; `policy` is the balance and how hot keys are split."""
    balance, split = policy
    Coordinator(balance, split=split).warm()
