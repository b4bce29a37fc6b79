"""Planners that only papers and comparisons use; those that jobs can use are in `trimtab.planning`."""

from trimtab.planning.plan import Planner
from trimtab_lab.planners.cola import cola
from trimtab_lab.planners.drain_then_balance import drain_then_balance
from trimtab_lab.planners.hash_placement import hash_placement
from trimtab_lab.planners.paper_milp import paper_milp

__all__ = ["PLANNERS", "cola", "drain_then_balance", "hash_placement", "paper_milp"]

PLANNERS: dict[str, Planner] = {"hash_placement": hash_placement, "cola": cola, "paper_milp": paper_milp}
"""By name, from the simplest to the slowest."""
