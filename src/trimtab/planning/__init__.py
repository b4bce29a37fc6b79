"""Placement: which node owns which unit.

Every planner is a function from a `Problem` to a `Plan`; `PLANNERS` has those that a job can use. The adaptation
step around them (plan, decide to scale, plan again, drain gradually) is `adapt`.

>>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
>>> PLANNERS["milp"].planner(problem).owner.tolist()
[1, 0, 0]
"""

from trimtab.planning.adaptation import Adaptation, ClusterState, Scaling, ScalingRule, adapt
from trimtab.planning.dlb import dlb
from trimtab.planning.flux import flux
from trimtab.planning.heaviest_first import heaviest_first
from trimtab.planning.lptf import lptf
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, Problem
from trimtab.planning.registry import PLANNERS, Registered

__all__ = [
    "NEW", "PLANNERS", "Adaptation", "ClusterState", "Plan", "Planner", "Problem", "Registered", "Scaling",
    "ScalingRule", "adapt", "dlb", "flux", "heaviest_first", "lptf", "milp",
]  # fmt: skip
