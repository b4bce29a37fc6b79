"""Placement: which node owns which unit.

Every planner is a function from a `Problem` to a `Plan`; `PLANNERS` has them all. The adaptation step around them
(plan, decide to scale, plan again, drain gradually) is `adapt`.

>>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
>>> PLANNERS["milp"](problem).owner.tolist()
[1, 0, 0]
"""

from trimtab.planning.adaptation import Adaptation, ClusterState, adapt, drain_then_balance
from trimtab.planning.albic import albic
from trimtab.planning.brute_force import brute_force
from trimtab.planning.cola import cola
from trimtab.planning.dlb import dlb
from trimtab.planning.first_fit import first_fit
from trimtab.planning.flux import flux
from trimtab.planning.fugu import fugu
from trimtab.planning.hash_placement import hash_placement
from trimtab.planning.heaviest_first import heaviest_first
from trimtab.planning.lptf import lptf
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, Problem
from trimtab.planning.scaling_rule import Scaling, ScalingRule
from trimtab.planning.synthetic import drift, shrinking_cluster, synthetic_cluster

PLANNERS: dict[str, Planner] = {
    "hash_placement": hash_placement,
    "first_fit": first_fit,
    "heaviest_first": heaviest_first,
    "lptf": lptf,
    "dlb": dlb,
    "flux": flux,
    "fugu": fugu,
    "milp": milp,
    "albic": albic,
    "cola": cola,
}
"""Every planner by its name, from the simplest to the most thorough."""

__all__ = [
    "NEW",
    "PLANNERS",
    "Adaptation",
    "ClusterState",
    "Plan",
    "Planner",
    "Problem",
    "Scaling",
    "ScalingRule",
    "adapt",
    "albic",
    "brute_force",
    "cola",
    "dlb",
    "drain_then_balance",
    "drift",
    "first_fit",
    "flux",
    "fugu",
    "hash_placement",
    "heaviest_first",
    "lptf",
    "milp",
    "shrinking_cluster",
    "synthetic_cluster",
]
