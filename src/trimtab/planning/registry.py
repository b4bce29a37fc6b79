"""The registry: every planner by name, what has to be installed for it, and how a job can use it.

What `Balance` takes, what `trimtab warm` compiles, the tables of docs/planning.md and docs/balancing.md and the errors
about planners all come from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from trimtab.planning.dlb import Policy as DlbPolicy
from trimtab.planning.dlb import dlb
from trimtab.planning.flux import flux
from trimtab.planning.heaviest_first import heaviest_first
from trimtab.planning.hot_units import plan_around_hot_units
from trimtab.planning.lptf import lptf
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import Problem
from trimtab.planning.solvers import need_solvers

NEAR_ENOUGH = 0.02
"""Load distances below this share of the mean are all the same to a job: moves aren't free."""
EFFORT = 60_000
"""Steps of a job's search, about 30 ms: a bound that doesn't depend on the machine, so that a log replays."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job allows its planner.

    theta         a deviation (RSTD, in percent) that is level enough
    time_limit_s  what planning may take
    """

    theta: float
    time_limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicy:
    """A way in which a job uses a planner.

    does, when  what docs/balancing.md says of it
    moves_many  it moves the lightest units, and they help if there are many: no limit unless the user sets one
    """

    plan: Callable[[Problem, Limits], Plan]
    does: str
    when: str
    moves_many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A planner, and what has to be known of it before it is called.

    does, when, origin  what docs/planning.md says of it
    solvers             the packages that it can't do without
    policies            how jobs use it, by the name that `Balance` takes
    """

    planner: Planner
    does: str
    when: str
    origin: str = ""
    solvers: tuple[str, ...] = ()
    policies: Mapping[str, JobPolicy] = field(default_factory=dict)


def _milp_in_a_job(problem: Problem, limits: Limits) -> Plan:
    def level(problem: Problem) -> Plan:
        # Half of the time, as it may be asked twice: around hot units, and without setting them apart.
        time_limit_s, near_enough = limits.time_limit_s / 2, NEAR_ENOUGH * problem.mean
        return milp(problem, time_limit_s=time_limit_s, effort=EFFORT, near_enough=near_enough)

    return plan_around_hot_units(problem, level)


def _dlb_in_a_job(problem: Problem, limits: Limits, *, policy: DlbPolicy) -> Plan:
    return dlb(problem, policy=policy, theta=limits.theta)


PLANNERS: dict[str, Registered] = {
    "milp": Registered(
        planner=milp,
        does="least load distance within the budget, with a proven bound; empties draining nodes on the way",
        when="the default",
        origin="Madsen 2017",
        solvers=("highspy", "scipy"),
        policies={
            "milp": JobPolicy(
                plan=_milp_in_a_job,
                does="the least load distance that the moves allow, by a solver",
                when="by default",
            )
        },
    ),
    "flux": Registered(
        planner=flux,
        does="levels the fullest node with the emptiest, the second with the second last, and so on",
        when="a plan in milliseconds",
        origin="Shah 2003",
        policies={
            "flux": JobPolicy(
                plan=lambda problem, _: flux(problem),
                does="levels the fullest engine with the emptiest, the second with the second last, and so on",
                when="for plans in a millisecond, with thousands of engines",
            )
        },
    ),
    "dlb": Registered(
        planner=dlb,
        does="moves one unit at a time to the emptiest node until the deviation is below `theta`; few heavy ones, or"
        ' with `policy="light"` many light ones',
        when="act only when it is bad enough",
        origin="Zacheilas 2016",
        policies={
            "dlb-heavy": JobPolicy(
                plan=partial(_dlb_in_a_job, policy="heavy"),
                does="moves one key group at a time to the emptiest engine until the RSTD is below `max_rstd`, the"
                " heaviest first",
                when="for few moves",
            ),
            "dlb-light": JobPolicy(
                plan=partial(_dlb_in_a_job, policy="light"),
                does="the same, the lightest first",
                when="where hot key groups should stay, because their state is large",
                moves_many=True,
            ),
        },
    ),
    "lptf": Registered(
        planner=lptf,
        does="all anew, heaviest first",
        when="a first placement; moving costs nothing",
        origin="Graham 1969",
        policies={
            "lptf": JobPolicy(
                plan=lambda problem, _: lptf(problem),
                does="places all anew, the heaviest first",
                when="where moves cost nothing: little state, few key groups",
            )
        },
    ),
    "heaviest_first": Registered(
        planner=heaviest_first,
        does="moves the heaviest units that help from the fullest node to the emptiest; nothing is compiled",
        when="a plan at once: 1,000 units in about a millisecond",
    ),
}
"""Every planner by its name, those for jobs first. `trimtab_lab.planners` adds those that no job can use."""

INSTEAD = {
    "heaviest_first": "any policy: each uses it by itself until its own planner is compiled",
    "first_fit": "None, which moves nothing",
    "fugu": '"milp" with scale=Scale(...), which lets engines go',
    "albic": '"milp", which is what it does where key groups send each other nothing, as those of a stream',
}
"""What a job should use in place of planners that it can't use."""

POLICIES: dict[str, JobPolicy] = {
    name: policy for registered in PLANNERS.values() for name, policy in registered.policies.items()
}
"""What `Job(balance=...)` takes as a name."""


def no_policy(name: str) -> tuple[str, str]:
    """What is wrong with a name that a job doesn't take, and what to do instead.

    >>> no_policy("first_fit")
    ('no job balances by "first_fit"', 'use None, which moves nothing')
    """
    if name in INSTEAD:
        return f'no job balances by "{name}"', f"use {INSTEAD[name]}"
    return f'there is no way of balancing called "{name}"', f"there are {', '.join(POLICIES)}; None moves nothing"


def planner_for_jobs(policy: str, limits: Limits) -> Planner:
    """The planner that a job's policy names."""
    return lambda problem: POLICIES[policy].plan(problem, limits)


def solvers_of(policy: str) -> tuple[str, ...]:
    """The packages that a job's policy can't do without."""
    return next(each.solvers for each in PLANNERS.values() if policy in each.policies)


def check_installed(policy: str) -> None:
    """Raise BalanceError `plan.solver` unless everything is installed that a job's policy needs."""
    need_solvers(*solvers_of(policy))
