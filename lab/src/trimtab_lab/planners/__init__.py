"""Planners that only papers and comparisons use, and a registry that adds them to those of `trimtab.planning`."""

from trimtab_lab.planners.albic import albic
from trimtab_lab.planners.cola import cola
from trimtab_lab.planners.drain_then_balance import drain_then_balance
from trimtab_lab.planners.first_fit import first_fit
from trimtab_lab.planners.fugu import fugu
from trimtab_lab.planners.hash_placement import hash_placement
from trimtab_lab.planners.paper_milp import paper_milp
from trimtab_lab.planners.registry import OF_THE_LAB, PLANNERS

__all__ = [
    "OF_THE_LAB",
    "PLANNERS",
    "albic",
    "cola",
    "drain_then_balance",
    "first_fit",
    "fugu",
    "hash_placement",
    "paper_milp",
]
