"""The coordinator: what the engines reported in, what should change out. No I/O, no clock, no Spark.

Its answers depend on nothing but the observations so far, so that a log of them can be played again, with the same
policy or with another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from trimtab.control.intake import Intake, IntakeLimit
from trimtab.control.intake_controller import IntakeController, IntakeState
from trimtab.deciding.actions import Action, AddEngines, DrainEngine, DropEngines, Move, SetIntake, SpreadKeys, in_words
from trimtab.deciding.load_estimates import LoadEstimates
from trimtab.deciding.observation import Int64Array, Observation
from trimtab.deciding.policy import DEFAULT, Balance, Scale
from trimtab.deciding.spreading import HotLoads, spread_keys
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.planning.adaptation import Adaptation, ClusterState, ScalingRule, adapt
from trimtab.planning.heaviest_first import heaviest_first
from trimtab.planning.linear_program import need_solvers
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import Int32Array, Problem
from trimtab.planning.registry import POLICIES, Limits, planner_for_jobs, solvers_of


@dataclass(frozen=True, slots=True)
class Decision:
    """What the coordinator observed in a batch, and what it decided.

    rstd           the relative standard deviation of the engines' loads, in percent, averaged over some batches
    least_rstd     no placement has less, because of the hottest key group
    load_distance  how far the farthest engine is from the mean, in percentage points of its time
    utilisation    the engines' mean utilisation, in percent; meaningless unless busy time is measured
    planned_rstd   what `rstd` would be after the plan; None: there was no plan
    reason         why, as text for people
    planner        which planner made the plan; empty: there was no plan
    intake         how many rows the next batch may take; None: nothing limits the intake
    """

    batch: int
    rstd: float
    least_rstd: float
    load_distance: float
    utilisation: float
    planned_rstd: float | None = None
    reason: str = ""
    actions: tuple[Action, ...] = ()
    planner: str = ""
    intake: IntakeLimit | None = None


Limited = tuple[IntakeLimit | None, tuple[Action, ...]]
"""The limit of the intake, and the action that sets it, if it has changed."""


@dataclass(slots=True)
class _Rest:
    """Batches and seconds since something was last done; infinite if it never was."""

    batches: float = float("inf")
    seconds: float = float("inf")

    def passes(self, seconds: float) -> None:
        self.batches, self.seconds = self.batches + 1, self.seconds + seconds

    def is_over(self, batches: int, seconds: float) -> bool:
        return self.batches >= batches and self.seconds >= seconds


@dataclass(slots=True)
class _Memory:
    uneven: int = 0  # batches in a row
    misfit: int = 0  # batches in a row with too many engines, or too few
    since_moving: _Rest = field(default_factory=_Rest)
    since_scaling: _Rest = field(default_factory=_Rest)
    draining: frozenset[int] = frozenset()


class Coordinator:
    """Watches one stream's batches.

    `balance`: when to move key groups; None: never, except to and from engines that come and go. `scale`: when engines
    come and go; None: never. `split`: how hot keys of split queries are spread; None: there are no such queries.
    `interval_s`: how long a batch should take. `intake`: how many rows batches may take; None: any number.
    `intake_state`: what its controller knows already; None: nothing.

    `limit` is how many rows a batch may take now; None: any number.

    >>> from trimtab.deciding.placement import Placement
    >>> coordinator = Coordinator(Balance(planner="flux", measure="events", patience=1))
    >>> observed = Observation.of_events(0, Placement.even(2, 4), [90, 10, 60, 10])
    >>> coordinator.step(observed).actions
    (Move(moves={0: 1}),)
    """

    def __init__(
        self,
        balance: Balance | None,
        scale: Scale | None = None,
        *,
        split: str | None = None,
        interval_s: float = 1.0,
        intake: Intake | None = None,
        intake_state: IntakeState | None = None,
    ) -> None:
        self.balance, self.scale, self.split, self.intake = balance, scale, split, intake
        self._policy = policy = balance or DEFAULT
        self._rule = None if scale is None else _rule(scale)
        self.interval_s = interval_s if scale is None or scale.interval_s is None else scale.interval_s
        self._estimates = LoadEstimates(policy.measured, half_life=policy.half_life_batches, interval_s=self.interval_s)
        self.plans = balance is not None or scale is not None
        if self.plans:  # to limit the intake takes no planner
            need_solvers(*solvers_of(policy.planner))
        theta = DEFAULT.max_rstd if policy.max_rstd is None else policy.max_rstd
        assert theta is not None
        self._planner = planner_for_jobs(policy.planner, Limits(theta, policy.time_limit_s))
        self._memory = _Memory()
        self._limiter = self.intake_state = self.limit = None
        if intake is not None:
            self._limiter = IntakeController(intake, self.interval_s)
            self.intake_state = intake_state or self._limiter.start()
            self.limit = self._limiter.limit_of(self.intake_state)

    def resume_intake(self, known: IntakeState) -> None:
        """Go on from what the control of the intake knew at the end of an earlier start."""
        if self._limiter is not None:
            self.intake_state = self._limiter.resumed(known)
            self.limit = self._limiter.limit_of(self.intake_state)

    def step(self, observed: Observation) -> Decision:
        """Take a batch in, and decide what should change; called for every batch, in order."""
        return self.placed(observed, self.limited(observed))

    def limited(self, observed: Observation) -> Limited:
        """The first half of a step, which takes no time: how many rows the next batch may take."""
        if self._limiter is None or self.intake_state is None or observed.intake is None:
            return None, ()
        before = self.intake_state.limit_rows
        self.intake_state, self.limit = self._limiter.step(self.intake_state, observed.intake)
        return self.limit, () if self.limit.rows == before else (SetIntake(self.limit.rows),)

    def placed(self, observed: Observation, limited: Limited) -> Decision:
        """The second half, in which a planner may take its time; `limited` is what the first half returned."""
        decision, (limit, actions) = self._placed(observed), limited
        return replace(decision, intake=limit, actions=decision.actions + actions)

    def _placed(self, observed: Observation) -> Decision:
        memory = self._memory
        self._estimates.take(observed)
        memory.since_moving.passes(observed.span_s)
        memory.since_scaling.passes(observed.span_s)
        memory.draining = _last_ones(memory.draining, observed.placement.engines)
        problem = self._problem(observed, self._cluster(observed))
        decision = Decision(
            batch=observed.batch,
            rstd=problem.rstd(problem.homes),
            least_rstd=least_rstd(problem),
            load_distance=problem.load_distance(problem.homes),
            utilisation=problem.mean,
        )
        if self.scale is not None and (memory.draining or self._has_misfit(problem)):
            adapted = self._adapted(observed, decision)
            if adapted is not None:
                return adapted
            decision = replace(decision, reason="as many engines as the load takes")
        if self.balance is None:
            return replace(decision, reason=decision.reason or "nothing is balanced")
        return self._balanced(observed, problem, decision)

    def warm(self) -> None:
        """Run the planner on every kind of problem it may get, so that all of it is compiled before it is used."""
        dice = np.random.default_rng(1)
        loads, homes = dice.pareto(1.0, 60), dice.integers(0, 4, 60)
        few = Problem(loads=[3.0, 2.0, 2.0, 1.0], homes=[0, 0, 0, 1], capacities=[100.0, 100.0], max_moves=1)
        many = Problem(loads=loads, homes=homes, capacities=[100.0, 100.0, 50.0, 100.0], max_moves=8)
        for problem in (
            few,
            many,
            replace(many, draining=np.array([False, False, True, False])),
            replace(many, max_moves=None, state_bytes=dice.random(60), max_cost=3.0),
            replace(many, loads=np.concatenate([[1000.0], loads[1:]])),
        ):
            self._planner(problem)

    def _planner_for(self, observed: Observation) -> Planner:
        """The policy's planner; until it is compiled a plain one, so that there are decisions from the start."""
        return self._planner if observed.is_planner_compiled else heaviest_first

    # Moving ------------------------------------------------------------------------------------

    def _balanced(self, observed: Observation, problem: Problem, decision: Decision) -> Decision:
        memory, policy = self._memory, self._policy
        is_uneven = self._is_uneven(problem)
        is_uneven_now = is_uneven and self._is_uneven(self._problem(observed, self._cluster(observed), now=True))
        memory.uneven = memory.uneven + 1 if is_uneven_now else 0
        if (respread := self._respread(observed, decision)) is not None:
            return respread
        if not is_uneven:
            return replace(decision, reason="level enough")
        if not is_uneven_now:
            # Averages remember a spike for some batches: patience would be of no use against it.
            return replace(decision, reason="uneven on average, but no more")
        if decision.rstd * (1 - policy.min_gain) < decision.least_rstd:
            return replace(decision, reason="as level as the hottest key group lets it be")
        if memory.uneven < policy.patience:
            return replace(decision, reason=f"uneven for {memory.uneven} of {policy.patience} batches")
        if not memory.since_moving.is_over(policy.period_batches, policy.period_s):
            return replace(decision, reason="something moved a short while ago")
        self._note_moving()
        plan = self._planner_for(observed)(problem)
        decision = replace(decision, planner=plan.planner)
        if not len(plan.moves) or plan.rstd > decision.rstd * (1 - policy.min_gain):
            return replace(decision, planned_rstd=plan.rstd, reason="uneven, and no move would help")
        return _with_actions(decision, plan, _moves(observed, plan.owner))

    def _respread(self, observed: Observation, decision: Decision) -> Decision | None:
        """Spread hot keys over more or fewer engines; None: that is not allowed, not due, or changes nothing."""
        memory, policy, before = self._memory, self._policy, observed.placement.spread
        is_time = memory.since_moving.is_over(policy.period_batches, policy.period_s)
        if self.split is None or not is_time or not (before or memory.uneven >= policy.patience):
            return None
        slots, loads = self._estimates.hot_keys()
        homes, engines = observed.placement.array(), observed.placement.engines
        base = np.bincount(homes, self._estimates.loads(slots.tolist()), engines).astype(np.float64)
        hot = HotLoads(slots, loads, homes[slots >> GROUP_SHIFT], base)
        found = spread_keys(self.split, hot, self._estimates.capacities(engines), before=before)
        if found == before:
            return None
        self._note_moving()
        actions = (SpreadKeys(found),)
        return replace(decision, reason=in_words(actions), actions=actions)

    def _is_uneven(self, problem: Problem) -> bool:
        policy, homes = self._policy, problem.homes
        return (policy.max_rstd is not None and problem.rstd(homes) > policy.max_rstd) or (
            policy.max_load_distance is not None and problem.load_distance(homes) > policy.max_load_distance
        )

    def _note_moving(self) -> None:
        self._memory.since_moving, self._memory.uneven = _Rest(0, 0.0), 0

    # Growing and shrinking ---------------------------------------------------------------------

    def _has_misfit(self, problem: Problem) -> bool:
        """Whether engines should come or go, as far as that is known without a plan."""
        memory, scale = self._memory, self.scale
        assert scale is not None
        peak, mean = float(problem.utilisation(problem.homes).max()), problem.mean
        too_few = peak > scale.high and mean > scale.target and problem.nodes < scale.max_engines
        too_many = mean < scale.low and problem.nodes > scale.min_engines
        memory.misfit = memory.misfit + 1 if too_few or too_many else 0
        is_rested = memory.since_scaling.is_over(scale.cool_down_batches, scale.cool_down_s)
        return memory.misfit >= self._policy.patience and is_rested

    def _adapted(self, observed: Observation, decision: Decision) -> Decision | None:
        """One period of Madsen's Algorithm 1: grow, shrink, or go on emptying engines; None: nothing to do."""
        memory = self._memory
        rule = None if memory.draining else self._rule
        problem_of = partial(self._problem, observed, is_change=True)
        found = adapt(self._cluster(observed), problem_of, self._planner_for(observed), rule)
        if rule is not None:
            memory.since_scaling, memory.misfit = _Rest(0, 0.0), 0
            if not (found.added or found.drained):
                return None  # the same engines stay: balancing decides whether key groups move among them
        memory.draining = found.state.draining | frozenset(found.terminated)
        decision = replace(decision, planner=found.plan.planner)
        self._note_moving()
        actions = self._actions(observed, found)
        if not actions:
            return replace(decision, planned_rstd=found.plan.rstd, reason="an engine can't be emptied any further")
        return _with_actions(decision, found.plan, actions)

    def _actions(self, observed: Observation, found: Adaptation) -> tuple[Action, ...]:
        engines = observed.placement.engines + len(found.added)
        owners = found.owners[: len(observed.placement.owner)]
        actions: list[Action] = [AddEngines(len(found.added))] if found.added else []
        actions += [DrainEngine(engine) for engine in found.drained]
        actions += _moves(observed, owners)
        # Only the last engines are ever drained, so that the others keep their numbers.
        leaving = 0
        held = np.bincount(owners, minlength=engines)
        while engines - leaving - 1 in self._memory.draining and not held[engines - leaving - 1]:
            leaving += 1
        if leaving:
            actions.append(DropEngines(leaving))
        return tuple(actions)

    # The problem -------------------------------------------------------------------------------

    def _cluster(self, observed: Observation) -> ClusterState:
        engines = observed.placement.engines
        return ClusterState(tuple(range(engines)), self._memory.draining, engines)

    def _problem(
        self, observed: Observation, state: ClusterState, *, now: bool = False, is_change: bool = False
    ) -> Problem:
        """The problem on the engines of a state; an engine's parts of spread keys count as one unit that can't move.

        `now`: with the loads of the last batch alone. `is_change`: an engine that is drained has no such parts.
        """
        policy, estimates, placement = self._policy, self._estimates, observed.placement
        nodes, engines = np.array(state.nodes), state.nodes[-1] + 1  # they are in order
        homes, draining = np.searchsorted(nodes, placement.array()), np.isin(nodes, list(state.draining))
        moves = policy.max_moves
        if moves is None and not POLICIES[policy.planner].moves_many:
            # Key groups that must leave an engine or go to a new one come on top of what balancing may move.
            coming = max(0, len(nodes) - placement.engines) * len(homes) // len(nodes)
            moves = max(1, len(homes) // 8) + int(draining[homes].sum()) + coming
        loads, costs = estimates.loads([each.slot for each in placement.spread], now=now), estimates.state_bytes
        max_cost: float | None = policy.max_state_bytes
        ballast = estimates.ballast(placement.spread, engines)[nodes]
        if is_change:  # its shares go to the others
            ballast = np.where(draining, 0.0, ballast + ballast[draining].sum() / np.count_nonzero(~draining))
        if ballast.any():
            max_cost = max_cost if max_cost is not None else float(costs.sum())
            loads = np.concatenate([loads, ballast])
            costs = np.concatenate([costs, np.full(len(ballast), 2 * max_cost + 1.0)])
            homes = np.concatenate([homes, np.arange(len(ballast))])
        capacities = estimates.capacities(engines)[nodes]
        return Problem(
            loads, homes, capacities, draining=draining, state_bytes=costs, max_moves=moves, max_cost=max_cost
        )


def least_rstd(problem: Problem) -> float:
    """The relative standard deviation, in percent, that is left if all but the heaviest unit could be split freely.

    >>> least_rstd(Problem(loads=[90.0, 5.0, 5.0], homes=[0, 0, 1], capacities=[100.0, 100.0]))
    80.0
    """
    strength = problem.strength[problem.open_nodes]
    total, hottest, best = float(problem.work.sum()), float(problem.work.max(initial=0.0)), float(strength.max())
    mean = total / float(strength.sum())
    if total <= 0 or len(strength) < 2 or hottest / best <= mean:
        return 0.0
    others = (total - hottest) / (float(strength.sum()) - best)
    levels = np.array([hottest / best, *[others] * (len(strength) - 1)])
    return 100.0 * float(levels.std()) / float(levels.mean())


def _last_ones(draining: frozenset[int], engines: int) -> frozenset[int]:
    """Of the engines that are being emptied, those that can still be dropped: they must be the last ones.

    If someone else has added engines after them in the meantime, they are ordinary engines from then on.
    """
    first = engines
    while first - 1 in draining:
        first -= 1
    return frozenset(range(first, engines))


def _moves(observed: Observation, owners: Int64Array | Int32Array) -> tuple[Action, ...]:
    homes = observed.placement.array()
    moved = np.flatnonzero(owners[: len(homes)] != homes)
    return (Move({int(group): int(owners[group]) for group in moved}),) if len(moved) else ()


def _with_actions(decision: Decision, plan: Plan, actions: tuple[Action, ...]) -> Decision:
    return replace(decision, planned_rstd=plan.rstd, reason=in_words(actions), actions=actions)


def _rule(scale: Scale) -> ScalingRule:
    # The coordinator itself counts the cool-down, in batches and seconds. That the remaining engines would be uneven is
    # no reason not to shrink as long as none is overloaded: a hot key is as hot on any number of engines.
    return ScalingRule(
        target=scale.target,
        low=scale.low,
        high=scale.high,
        cool_down_periods=0,
        min_nodes=scale.min_engines,
        max_nodes=scale.max_engines,
        max_load_distance=100.0,
        drain_last=True,
    )
