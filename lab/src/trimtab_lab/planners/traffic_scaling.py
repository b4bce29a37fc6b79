"""A scaling rule that includes the cost of traffic between nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.planning.adaptation import ScalingRule
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Problem


@dataclass(frozen=True, kw_only=True)
class TrafficScalingRule(ScalingRule):
    """A plan that brings units that talk to each other together lowers the load, and may save a node.

    serialisation_load  the load that a unit of traffic costs, both ends together, when it leaves its node

    >>> from scipy.sparse import csr_array
    >>> traffic = csr_array(([8.0], ([0], [1])), shape=(2, 2))
    >>> problem = Problem([10.0, 10.0], [0, 1], [100.0, 100.0], traffic=traffic)
    >>> TrafficScalingRule(serialisation_load=0.5).planned_load(problem, Plan.of(problem, [0, 0], "by hand"))
    16.0
    """

    serialisation_load: float

    def planned_load(self, problem: Problem, plan: Plan) -> float:
        """The load of all units once the plan is in force."""
        load = float(problem.work.sum())
        if problem.traffic is None:
            return load
        # Units that are new have no traffic yet, so they are counted where they will be.
        homes = np.where(problem.homes == NEW, plan.owner, problem.homes)
        gathered = plan.collocation - problem.collocation(homes)
        return load - self.serialisation_load * float(problem.traffic.sum()) * gathered / 100.0
