"""Between the pipeline and the coordinator: decisions are made beside the stream, and taken up when they are ready.

A batch waits for the decision on the batch before for a moment only. If it isn't there by then, the batch goes on with
the placement as it is, and a later one takes the decision up: planning never holds the stream up.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor

from trimtab.errors import StateError
from trimtab.runtime import decision_log
from trimtab.runtime.actions import applied
from trimtab.runtime.coordinator import Coordinator, Decision
from trimtab.runtime.decision_log import Entry
from trimtab.runtime.observation import Observation
from trimtab.runtime.placement import Placement
from trimtab.state.files import Folder

_log = logging.getLogger("trimtab")

HOLD_S = 0.15
"""How long a batch may wait for a decision."""


class Balancer:
    """Asks the coordinator after each batch, in a thread of its own, and keeps the log."""

    def __init__(self, coordinator: Coordinator, log: Folder) -> None:
        self._coordinator, self._log = coordinator, log
        self._log.make()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="trimtab-balance")
        self._pending: list[tuple[Observation, Future[Decision]]] = []
        self._worker.submit(coordinator.warm)
        self._is_first = True
        self.latest: Decision | None = None

    def saw(self, seen: Observation) -> None:
        """A batch is committed: have it thought about, then logged."""
        decision = self._worker.submit(self._coordinator.step, seen)
        self._pending.append((seen, decision))
        self._worker.submit(self._write, seen, decision, self._is_first)
        self._is_first = False

    def changed(self, placement: Placement) -> Placement:
        """The placement with what was decided since; waits for the last decision, but not for long."""
        until = time.monotonic() + HOLD_S
        while self._pending:
            seen, future = self._pending[0]
            try:
                decision = future.result(max(0.0, until - time.monotonic()))
            except TimeoutError:
                break
            except Exception:
                # The stream can do without: it stays as it is placed.
                _log.warning("the coordinator failed on batch %d; nothing moves", seen.batch, exc_info=True)
            else:
                self.latest = decision
                if decision.actions and seen.placement == placement:
                    placement = applied(decision.actions, placement)
                # Otherwise something else was changed in the meantime: the plan was for another placement.
            self._pending.pop(0)
        return placement

    def stop(self) -> None:
        """End the thread; what it is at is finished and logged."""
        self._worker.shutdown(wait=True)

    def _write(self, seen: Observation, decided: Future[Decision], is_first: bool) -> None:
        if decided.exception() is not None:
            return
        told = self._coordinator
        entry = Entry(seen, decided.result(), told.balance, told.scale, told.split, told.interval_s, is_first)
        try:
            decision_log.write(self._log, entry)
        except StateError as error:
            _log.warning("batch %d is missing in the coordinator's log: %s", seen.batch, error)
