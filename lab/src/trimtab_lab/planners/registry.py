"""The lab's registry: the planners that no job can use, together with those of `trimtab.planning`."""

from __future__ import annotations

from trimtab.planning import registry
from trimtab.planning.registry import Registered
from trimtab_lab.planners.albic import albic
from trimtab_lab.planners.cola import cola
from trimtab_lab.planners.first_fit import first_fit
from trimtab_lab.planners.fugu import fugu
from trimtab_lab.planners.hash_placement import hash_placement
from trimtab_lab.planners.paper_milp import paper_milp

OF_THE_LAB: dict[str, Registered] = {
    "hash_placement": Registered(hash_placement),
    "first_fit": Registered(first_fit),
    "fugu": Registered(fugu),
    "cola": Registered(cola, solvers=("pymetis", "scipy")),
    "albic": Registered(albic, solvers=("highspy", "pymetis", "scipy")),
    "paper_milp": Registered(paper_milp, solvers=("highspy", "scipy")),
}
"""By name, from the simplest to the slowest."""

PLANNERS: dict[str, Registered] = {**registry.PLANNERS, **OF_THE_LAB}
"""All planners, those of `trimtab.planning` first."""
