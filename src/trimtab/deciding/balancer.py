"""Between the pipeline and the coordinator: decisions are made beside the stream, and applied when they are ready.

A batch waits only `HOLD_S` for the decision on the batch before. If it isn't ready by then, the batch runs with the
placement as it is, and a later batch applies the decision: planning never holds the stream up, and no decision is
waited for twice. What fails is logged and shown in the job's progress, and the next batch is decided on as usual.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial

from trimtab.control.intake import IntakeLimit
from trimtab.control.intake_controller import IntakeController, IntakeState
from trimtab.deciding import decision_log
from trimtab.deciding.actions import applied
from trimtab.deciding.coordinator import Coordinator, Decision, Limited
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
MAX_WAITING = 100
"""How many batches may wait for a decision; beyond this, batches are skipped."""


@dataclass(slots=True)
class _Asked:
    """A batch that is being decided on. `is_overdue`: a batch has waited for the decision already."""

    observed: Observation
    decision: Future[Decision] = field(default_factory=Future)
    is_overdue: bool = False


class Balancer:
    """Asks the coordinator after each batch, in a thread of its own, and keeps the log.

    `compiler`: compiles the coordinator's planner; None: it is compiled already.
    """

    def __init__(self, coordinator: Coordinator, log: Folder, compiler: Compiler | None = None) -> None:
        self._coordinator, self._log = coordinator, log
        self._log.make()
        if coordinator.intake is not None:
            _resume_intake(coordinator, decision_log.last(log))
        self._is_compiled = threading.Event()
        if compiler is None or not coordinator.plans:
            self._is_compiled.set()
        else:
            compiler.ask(warm_planner, (coordinator.balance, coordinator.split), self._compiled)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._pending: list[_Asked] = []
        self._is_first = True
        self._complaints: set[str] = set()
        self.latest: Decision | None = None
        # A daemon: neither stopping nor the end of the process waits for a planner that is still running.
        self._thread = threading.Thread(target=self._run, name="trimtab-balance", daemon=True)
        self._thread.start()

    @property
    def limit(self) -> IntakeLimit | None:
        """How many rows a batch may take now; None: any number."""
        return self._coordinator.limit

    def consider(self, observed: Observation) -> None:
        """Let the coordinator decide on a committed batch, and log the decision; returns at once.

        The limit of the intake is decided here, and so always in force in the next batch: a controller whose actions
        are late, now and then, would swing. It takes no time, and no planner holds it up.
        """
        known = self._coordinator.intake_state
        limited = self._coordinator.limited(observed)
        if len(self._pending) >= MAX_WAITING:
            self._complain("behind", f"{MAX_WAITING} batches wait for a decision, so later ones are not decided on")
            return
        asked = _Asked(replace(observed, is_planner_compiled=self._is_compiled.is_set()))
        self._pending.append(asked)
        self._work.put(partial(self._decide, asked, self._is_first, known, limited))
        self._is_first = False

    def changed(self, placement: Placement) -> Placement:
        """The placement with all decisions so far applied; waits up to `HOLD_S` for the last one."""
        until = time.monotonic() + HOLD_S
        while self._pending:
            asked = self._pending[0]
            wait([asked.decision], 0.0 if asked.is_overdue else max(0.0, until - time.monotonic()))
            if not asked.decision.done():
                asked.is_overdue = True
                break
            self._pending.pop(0)
            error = asked.decision.exception()
            if error is not None:  # the stream can go on without a decision
                reason = f"the coordinator failed, and nothing moves: {type(error).__name__}: {error}"
                self.latest = Decision(asked.observed.batch, 0.0, 0.0, 0.0, 0.0, None, reason)
                self._complain("decision", reason, error)
                continue
            self.latest = decision = asked.decision.result()
            if decision.actions and asked.observed.placement == placement:
                placement = applied(decision.actions, placement)
            # Otherwise the placement has changed in the meantime, and the plan was for the old one.
        return placement

    def _complain(self, kind: str, what: str, error: BaseException | None = None) -> None:
        """Log a warning, one of each kind: the cause may be there in every batch."""
        if kind not in self._complaints:
            self._complaints.add(kind)
            _log.warning("%s", what, exc_info=error)

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
        except BaseException as error:
            self._complain("planner", "the compiled planner can't be loaded; a plain one keeps deciding", error)
        else:
            self._is_compiled.set()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()  # it raises nothing: the thread would end, and no decision would ever come

    def _decide(self, asked: _Asked, is_first: bool, known: IntakeState | None, limited: Limited) -> None:
        observed, decided = asked.observed, asked.decision
        try:
            # An optimising planner is of no use as plain Python: it would take minutes.
            with if_missing(Missing.REFUSE if observed.is_planner_compiled else Missing.PLAIN):
                decision = self._coordinator.placed(observed, limited)
        except BaseException as error:  # `changed` reports it
            decided.set_exception(error)
            return
        decided.set_result(decision)
        own = self._coordinator
        entry = Entry(
            observed, decision, own.balance, own.scale, own.interval_s, is_first, own.split, own.intake, known
        )
        try:
            decision_log.write(self._log, entry)
        except BaseException as error:
            what = f"batch {observed.batch} is missing in the coordinator's log, and perhaps later ones are: {error}"
            self._complain("log", what, None if isinstance(error, StateError) else error)


def _resume_intake(coordinator: Coordinator, last: Entry | None) -> None:
    """Let the intake go on from the log of an earlier start, if the same was held then."""
    if last is None or last.intake is None or last.intake_state is None or last.observed.intake is None:
        return
    if (last.intake, last.interval_s) == (coordinator.intake, coordinator.interval_s):
        controller = IntakeController(last.intake, last.interval_s)
        coordinator.resume_intake(controller.step(last.intake_state, last.observed.intake)[0])


def warm_planner(policy: tuple[Balance | None, str | None]) -> None:
    """Let a coordinator's planner decide on made-up loads; `policy` is the balance and how hot keys are split."""
    balance, split = policy
    Coordinator(balance, split=split).warm()
