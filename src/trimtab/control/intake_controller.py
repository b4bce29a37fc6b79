"""IntakeController: how many rows the next batch may take, from what was observed of the last one. No clock and no I/O.

The law is the paper's PI controller (`PIController`), with gains that are placed anew after every batch:

- **Batch time, latency and used memory** are costs: `cost(k) = fixed + a_row * rows(k)`, which is a `FirstOrderModel`
  with `a = 0`, `b = a_row` and no delay. The poles p and q need `KP = -p q / b` and `KI = (1 - p)(1 - q) / b`. What a
  row costs comes from `CostEstimate`, and counts as no more than `cost / rows`, and as no less than `LEAST_SHARE` of
  that. The true value is never above `cost / rows`, so it is at most five times what it counts as; the loop is stable
  up to ten times (its gain margin): **it is stable whatever the estimate is**, and the estimate only makes it quick.
- **A backlog** grows by what arrives and shrinks by what is read: `a = 1`, `b = -1`. Nothing has to be estimated.

The action is always changed from what was in force in the batch that was measured. So there is no wind-up at a bound
or without a backlog, and a limit that takes effect a batch late slows the loop down, but doesn't make it unstable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from trimtab.control.cost_estimate import CostEstimate
from trimtab.control.excitation import excitation
from trimtab.control.intake import Held, Intake, IntakeLimit, IntakeObserved
from trimtab.control.loop import PIGains
from trimtab.control.pi import PIController, PIState
from trimtab.control.reading_shares import SharesState, next_shares

COST_GAINS = PIGains(-0.1, 0.4)
"""Times `1 / b`: the poles of a cost are 0.5 and 0.2. A disturbance halves with every batch, and of the noise of the
measurements little gets into the action."""

BACKLOG_GAINS = PIGains(-0.75, -0.25)
"""Both poles of a backlog are 0.5."""

LEAST_SHARE = 0.2
"""A row counts as at least this share of `cost / rows`: a smaller one makes the start no quicker."""

FASTEST_GROWTH = {Held.FREE_MEMORY: 2.0}
"""A batch may take four times as many rows as the last one; where memory is short, twice as many."""

FASTEST_FALL = 0.25

SLOW = 2.0
"""A batch that costs more than so many references counts with so many; the second in a row counts with up to eight."""

FIRST_BATCHES = 3
"""These also compile and connect: if they take too long, the rows are not the reason."""

MOST_PLAIN_S = 60.0
"""For so long in all, batches without their machine code are excused. Later ones may be all that there will be."""

TELLING_SHARE = 0.5
"""A batch with less than this share of its limit says nothing about the limit."""

LEAST_COST = 1e-6
"""No batch takes less, and a measurement of 0 can't be divided by."""

BATCH_SHARE = 0.5
"""Of a latency a batch may take half: a row waits for the batch before its own, and then for its own."""

LATENCY_GAIN = 0.1
"""By how much the latency itself corrects that share: the outer loop is slower than the one within it."""

EXCITE_AFTER, EXCITE_HOLD, EXCITE_SWING = 20, 2, 0.3
"""The batches before limits are set at random, how many batches each is held on average, and how far they go."""

LEAST_BATCH_SHARE, MOST_BATCH_SHARE = 0.25, 0.9


@dataclass(frozen=True, slots=True)
class IntakeState:
    """What a controller remembers. Plain values.

    limit_rows     the last limit
    batches        how many batches were observed
    measurement    the last measurement of the PI controller; None: none, or one that said nothing about the limit
    slow           batches in a row that cost more than `SLOW` references
    bytes_a_row    the size of a row: grows at once, and shrinks slowly; 0: unknown
    batch_share    of the reference of a latency, the part that a batch may take
    estimate       what batches cost; None: unknown
    excited        how many limits were set at random
    level          the limit around which they were
    reading        which part of the rows each executor reads; None: there are fewer than two
    is_plain       whether engines lacked machine code in the last batch
    plain_s        for how long they did, in all
    found_rows     the last limit that followed from a measurement; 0: there was none
    """

    limit_rows: int
    batches: int = 0
    measurement: float | None = None
    slow: int = 0
    bytes_a_row: float = 0.0
    batch_share: float = BATCH_SHARE
    estimate: CostEstimate | None = None
    excited: int = 0
    level: int = 0
    reading: SharesState | None = None
    is_plain: bool = False
    plain_s: float = 0.0
    found_rows: int = 0

    def as_json(self) -> dict[str, Any]:
        """The state as plain values."""
        nested = {"estimate": self.estimate, "reading": self.reading}
        return dataclasses.asdict(self) | {name: value and value.as_json() for name, value in nested.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> IntakeState:
        """The state that `as_json` returned."""
        estimate, reading = values["estimate"], values.get("reading")  # older logs don't have the latter
        nested = {
            "estimate": estimate and CostEstimate.from_json(estimate),
            "reading": reading and SharesState.from_json(reading),
        }
        return cls(**{**values, **nested})


@dataclass(frozen=True, slots=True)
class _Bounds:
    least: float
    most: float
    name_of_most: str


@dataclass(frozen=True, slots=True)
class IntakeController:
    """Holds what an `Intake` describes. `interval_s`: the batch time to hold if it names no reference.

    >>> controller = IntakeController(Intake(batch_s=0.5))
    >>> state = controller.start()
    >>> for _ in range(10):
    ...     rows = state.limit_rows
    ...     state, limit = controller.step(state, IntakeObserved(rows=rows, batch_s=0.1 + 1e-6 * rows))
    >>> round(limit.measure, 2), limit.rows, limit.reason
    (0.5, 398198, 'batch_s is at its reference')
    """

    intake: Intake
    interval_s: float = 1.0

    def start(self) -> IntakeState:
        """The state before the first batch, which may take `first_rows`."""
        intake = self.intake
        return IntakeState(min(max(intake.first_rows, intake.min_rows), intake.max_rows))

    def resumed(self, known: IntakeState) -> IntakeState:
        """The state at a later start: with half of the rows that were found, as its first batches may take longer.

        Starts that read all at once find nothing, and hand on what they began with.
        """
        if not known.found_rows:
            return self.start()
        widest = self._widest(known)
        return IntakeState(
            int(min(max(known.found_rows / 2, widest.least), widest.most)),
            bytes_a_row=known.bytes_a_row,
            batch_share=known.batch_share,
            estimate=None if known.is_plain else known.estimate,
            found_rows=known.found_rows,
        )

    def first_limit(self) -> IntakeLimit:
        """The limit of the first batch."""
        return self.limit_of(self.start())

    def limit_of(self, state: IntakeState) -> IntakeLimit:
        """The limit of a state from which control goes on."""
        limit = self._limit(state.limit_rows, None, "no batch was measured yet")
        return limit if state.reading is None else replace(limit, shares=state.reading.by_name)

    def step(self, state: IntakeState, observed: IntakeObserved) -> tuple[IntakeState, IntakeLimit]:
        """The limit after one more batch, and who reads the next one; called for every batch, in order."""
        state, limit = self._limited(state, observed)
        reading = next_shares(state.reading, observed.reading_s)
        return replace(state, reading=reading), replace(limit, shares={} if reading is None else reading.by_name)

    def _limited(self, state: IntakeState, observed: IntakeObserved) -> tuple[IntakeState, IntakeLimit]:
        held = self.intake.held
        has_changed = state.is_plain and not observed.is_plain
        state = replace(
            state,
            batches=state.batches + 1,
            bytes_a_row=_bytes_a_row(state, observed),
            is_plain=observed.is_plain,
            plain_s=state.plain_s + (observed.batch_s if observed.is_plain else 0.0),
            estimate=None if has_changed else state.estimate,
            measurement=None if has_changed else state.measurement,
        )
        measure = observed.measure(held)
        if observed.rows <= 0:
            return self._kept(state, measure, "no rows were read")
        if state.batches >= EXCITE_AFTER and state.excited < self.intake.excite and not _took_all(state, observed):
            return self._excited(state, observed, measure)
        if measure is None and held is not Held.LATENCY:  # without a latency, batches are held at their share of it
            return self._kept(state, None, f"{held.value} was not measured")
        if held is Held.BACKLOG:
            gains = self.intake.gains
            return self._stepped(state, observed, measure, gains if isinstance(gains, PIGains) else BACKLOG_GAINS)
        return self._held_cost(state, observed, measure, _in_force(state, observed))

    # Excitation --------------------------------------------------------------------------------

    def _excited(
        self, state: IntakeState, observed: IntakeObserved, measure: float | None
    ) -> tuple[IntakeState, IntakeLimit]:
        """The next limit of those set at random around the one that control had found; control goes on after them."""
        level, wanted, widest = state.level or state.limit_rows, self.intake.excite, self._widest(state)
        is_cost, cost = self.intake.held is not Held.BACKLOG, self._cost(observed)
        slow = state.slow + 1 if is_cost and cost > SLOW * self._target(state) else 0
        if is_cost:
            known = state.estimate
            of = CostEstimate.of(observed.rows, cost) if known is None else known.updated(observed.rows, cost)
            state = replace(state, estimate=of)
        state = replace(state, level=level, slow=slow, measurement=None)
        if slow > 1:  # something else has changed, and control is needed
            return self._kept(replace(state, excited=wanted), measure, "no more limits are set at random: too slow")
        rows = _random_limits(level, wanted)[state.excited]
        rows = int(min(max(float(rows), widest.least), widest.most))
        state = replace(state, limit_rows=rows, excited=state.excited + 1)
        reason = f"set at random, {state.excited} of {wanted}, so that it is seen what rows do"
        return state, self._limit(rows, measure, reason, widest)

    # Costs -------------------------------------------------------------------------------------

    def _held_cost(
        self, state: IntakeState, observed: IntakeObserved, measure: float | None, in_force: int
    ) -> tuple[IntakeState, IntakeLimit]:
        held, rows = self.intake.held, observed.rows
        state = self._with_batch_share(state, observed, is_limited=not _took_all(state, observed))
        cost, target = self._cost(observed), self._target(state)
        is_excused = state.batches <= FIRST_BATCHES or (state.is_plain and state.plain_s <= MOST_PLAIN_S)
        if is_excused and cost > target and held is not Held.FREE_MEMORY:
            why = "machine code isn't compiled yet" if state.is_plain else "the first batches also compile"
            return self._kept(state, measure, why)
        known = state.estimate
        estimate = CostEstimate.of(rows, cost) if known is None else known.updated(rows, cost)
        state = replace(state, estimate=estimate, slow=state.slow + 1 if cost > SLOW * target else 0)
        if _took_all(state, observed) and (cost <= target or rows < TELLING_SHARE * in_force):
            return self._kept(replace(state, measurement=None), measure, "all that waited was read")
        if isinstance(self.intake.gains, PIGains) and measure is not None:
            return self._stepped(state, observed, measure, self.intake.gains)
        believed = cost if known is None or held is Held.FREE_MEMORY else known.believed(rows, cost)
        believed = max(believed, min(cost, target))  # an outlier may make a step smaller, but never turn it round
        counted = min(believed, (SLOW if state.slow == 1 else SLOW / FASTEST_FALL) * target)
        most_a_row = counted / rows
        a_row = min(max(estimate.a_row_at_most, LEAST_SHARE * most_a_row), most_a_row)
        gains = PIGains(COST_GAINS.proportional / a_row, COST_GAINS.integral / a_row)
        return self._acted(state, observed, measure, PIController(gains, target), counted)

    def _cost(self, observed: IntakeObserved) -> float:
        """What grows with the rows of a batch."""
        is_memory = self.intake.held is Held.FREE_MEMORY
        cost = 1.0 - (observed.free_memory_share or 0.0) if is_memory else observed.batch_s
        return max(cost, LEAST_COST)

    def _target(self, state: IntakeState) -> float:
        """The cost at which the reference is held."""
        reference = self.intake.reference(self.interval_s)
        match self.intake.held:
            case Held.FREE_MEMORY:
                return 1.0 - reference
            case Held.LATENCY:
                return state.batch_share * reference
            case _:
                return reference

    def _with_batch_share(self, state: IntakeState, observed: IntakeObserved, *, is_limited: bool) -> IntakeState:
        """The outer loop of a latency: an integral controller that sets the batch time.

        A batch that wasn't limited says nothing about it. If more rows wait than the next batch takes, their wait is
        the latency: longer batches read more a second, and shorten it.
        """
        latency, backlog = observed.latency_s, observed.backlog_rows
        if self.intake.held is not Held.LATENCY or latency is None or backlog is None or not is_limited:
            return state
        reference = self.intake.reference()
        too_late = min(max((latency - reference) / reference, -1.0), 1.0)
        change = LATENCY_GAIN * (max(too_late, 0.0) if backlog > observed.rows else -too_late)
        return replace(state, batch_share=min(max(state.batch_share + change, LEAST_BATCH_SHARE), MOST_BATCH_SHARE))

    # One step of the PI controller -------------------------------------------------------------

    def _stepped(
        self, state: IntakeState, observed: IntakeObserved, measure: float | None, gains: PIGains
    ) -> tuple[IntakeState, IntakeLimit]:
        """A step with gains that are known: those of a backlog, or the user's."""
        assert measure is not None
        controller = PIController(gains, self.intake.reference(self.interval_s))
        return self._acted(state, observed, measure, controller, measure)

    def _acted(
        self,
        state: IntakeState,
        observed: IntakeObserved,
        measure: float | None,
        controller: PIController,
        counted: float,
    ) -> tuple[IntakeState, IntakeLimit]:
        bounds, applied = self._bounds(state, observed.rows), observed.rows
        if not _took_all(state, observed):  # if it is less than was allowed, then because whole files aren't cut
            applied = max(applied, _in_force(state, observed))
        controller = replace(controller, minimum=bounds.least, maximum=bounds.most)
        before = PIState(float(state.limit_rows), state.measurement)
        after, action = controller.step(before, counted, applied=float(applied))
        rows = max(1, round(action))
        state = replace(state, limit_rows=rows, measurement=after.measurement, found_rows=rows)
        return state, self._limit(rows, measure, self._reason(state, measure, observed.rows), self._widest(state))

    def _widest(self, state: IntakeState) -> _Bounds:
        """Within the user's bounds; `min_rows` yields to `max_bytes`."""
        intake, most, name = self.intake, float(self.intake.max_rows), "max_rows"
        if state.bytes_a_row > 0 and intake.max_bytes / state.bytes_a_row < most:
            most, name = max(1.0, float(intake.max_bytes // state.bytes_a_row)), "max_bytes"
        return _Bounds(min(float(intake.min_rows), most), most, name)

    def _bounds(self, state: IntakeState, rows: int) -> _Bounds:
        """And not too far from the last batch."""
        widest, growth = self._widest(state), FASTEST_GROWTH.get(self.intake.held, 4.0)
        least = min(max(widest.least, FASTEST_FALL * rows), widest.most)
        return replace(widest, least=least, most=max(min(widest.most, growth * rows), least))

    # What is said about it ---------------------------------------------------------------------

    def _kept(self, state: IntakeState, measure: float | None, why: str) -> tuple[IntakeState, IntakeLimit]:
        """The limit stays, unless rows have become too large for it."""
        widest = self._widest(state)
        rows = int(min(max(float(state.limit_rows), widest.least), widest.most))
        return replace(state, limit_rows=rows), self._limit(rows, measure, why, widest)

    def _limit(self, rows: int, measure: float | None, reason: str, widest: _Bounds | None = None) -> IntakeLimit:
        reference = self.intake.reference(self.interval_s)
        error = None if measure is None else reference - measure
        is_saturated = widest is not None and not widest.least < rows < widest.most
        return IntakeLimit(
            rows=rows,
            held=self.intake.held.value,
            reference=reference,
            measure=measure,
            error=error,
            is_saturated=is_saturated,
            reason=reason,
        )

    def _reason(self, state: IntakeState, measure: float | None, rows_before: int) -> str:
        if measure is None:
            return "the source doesn't tell when rows arrived: a batch takes its share of the latency"
        held, reference, widest = self.intake.held, self.intake.reference(self.interval_s), self._widest(state)
        name, rows = held.value, state.limit_rows
        if rows >= widest.most:
            return f"{name} is {measure:.3g}, and {widest.name_of_most} allows no more rows"
        if rows <= widest.least:
            fixed = 0.0 if state.estimate is None else state.estimate.fixed
            if held is Held.BATCH_TIME and measure > reference:
                return f"a batch takes {fixed:.2g} s without rows: even min_rows take longer than {reference:g} s"
            return f"{name} is {measure:.3g}, and min_rows allows no fewer rows"
        if abs(measure - reference) <= 0.05 * reference:
            return f"{name} is at its reference"
        place, change = "above" if measure > reference else "below", "more" if rows > rows_before else "fewer"
        return f"{name} is {place} its reference: {change} rows than before"


@lru_cache(maxsize=8)
def _random_limits(level: int, count: int) -> tuple[int, ...]:
    """So many limits in random steps around a level: the same ones whenever a log is replayed."""
    return tuple(round(each) for each in excitation(level, EXCITE_SWING * level, intervals=count, hold=EXCITE_HOLD))


def _in_force(state: IntakeState, observed: IntakeObserved) -> int:
    """The limit that the batch was planned with."""
    return state.limit_rows if observed.limit_rows is None else observed.limit_rows


def _took_all(state: IntakeState, observed: IntakeObserved) -> bool:
    """Whether a batch has fewer rows than it was allowed because there were no more."""
    return observed.rows + (observed.backlog_rows or 0) < _in_force(state, observed)


def _bytes_a_row(state: IntakeState, observed: IntakeObserved) -> float:
    if observed.bytes is None or observed.rows <= 0:
        return state.bytes_a_row
    return max(observed.bytes / observed.rows, 0.9 * state.bytes_a_row)
