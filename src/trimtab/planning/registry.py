"""The registry: every planner by name, what has to be installed for it, and how a job can use it.

What `Balance` takes, what `trimtab warm` compiles and the errors about planners all come from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.planning.dlb import dlb
from trimtab.planning.flux import flux
from trimtab.planning.heaviest_first import heaviest_first
from trimtab.planning.hot_units import plan_around_hot_units
from trimtab.planning.lptf import lptf
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import Problem

NEAR_ENOUGH = 0.02
"""Load distances below this share of the mean are all the same to a job: moves aren't free."""
EFFORT = 60_000
"""Steps of a job's search, about 30 ms: a bound that doesn't depend on the machine, so that a log replays."""


class Limits(NamedTuple):
    """What a job allows its planner: a deviation (RSTD, in percent) that is level enough, and how long it may take."""

    theta: float
    time_limit_s: float


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """A way in which a job uses a planner; docs/balancing.md says what each is for.

    moves_many  it moves the lightest units, and they help if there are many: no limit unless the user sets one
    """

    plan: Callable[[Problem, Limits], Plan]
    moves_many: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """A planner, and what has to be known of it before it is called; docs/planning.md says what each is for.

    policies  how jobs use it, by the name that `Balance` takes
    solvers   the packages that it can't do without
    """

    planner: Planner
    policies: Mapping[str, JobPolicy] = field(default_factory=dict)
    solvers: tuple[str, ...] = ()


def _milp_in_a_job(problem: Problem, limits: Limits) -> Plan:
    def level(problem: Problem) -> Plan:
        # Half of the time, as it may be asked twice: around hot units, and without setting them apart.
        time_limit_s, near_enough = limits.time_limit_s / 2, NEAR_ENOUGH * problem.mean
        return milp(problem, time_limit_s=time_limit_s, effort=EFFORT, near_enough=near_enough)

    return plan_around_hot_units(problem, level)


PLANNERS: dict[str, Registered] = {
    "milp": Registered(milp, {"milp": JobPolicy(_milp_in_a_job)}, solvers=("highspy", "scipy")),
    "flux": Registered(flux, {"flux": JobPolicy(lambda problem, _: flux(problem))}),
    "dlb": Registered(
        dlb,
        {
            "dlb-heavy": JobPolicy(lambda problem, limits: dlb(problem, theta=limits.theta)),
            "dlb-light": JobPolicy(
                lambda problem, limits: dlb(problem, policy="light", theta=limits.theta), moves_many=True
            ),
        },
    ),
    "lptf": Registered(lptf, {"lptf": JobPolicy(lambda problem, _: lptf(problem))}),
    "heaviest_first": Registered(heaviest_first),
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
