"""The lab's registry: the planners that no job can use, beside those of `trimtab.planning`.

The second table of docs/planning.md comes from here.
"""

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
    "hash_placement": Registered(
        planner=hash_placement,
        does="a hash of the unit's number says where it belongs",
        when="comparing with what streaming engines do by default",
        origin="Zacheilas 2016",
    ),
    "first_fit": Registered(
        planner=first_fit,
        does="new units on the first node with room; the others stay",
        when="moving is out of the question",
        origin="Heinze 2013",
    ),
    "fugu": Registered(
        planner=fugu,
        does="fills few nodes up to a threshold, and frees the others; goes by bytes of state, too",
        when="paying for nodes by the hour",
        origin="Heinze 2013",
    ),
    "cola": Registered(
        planner=cola,
        does="all anew, by cutting the graph of traffic",
        when="moving costs nothing, and traffic between nodes does",
        origin="Khandekar 2009",
        solvers=("pymetis", "scipy"),
    ),
    "albic": Registered(
        planner=albic,
        does="`milp` that also brings units that talk to each other together, a few moves a period; goes by traffic",
        when="traffic between nodes costs",
        origin="Madsen 2017",
        solvers=("highspy", "pymetis", "scipy"),
    ),
    "paper_milp": Registered(
        planner=paper_milp,
        does="the mixed-integer program as the paper prints it",
        when="holding `milp` against it; exact, and slow",
        origin="Madsen 2017",
        solvers=("highspy", "scipy"),
    ),
}
"""By name, from the simplest to the slowest."""

PLANNERS: dict[str, Registered] = {**registry.PLANNERS, **OF_THE_LAB}
"""Every planner there is, those of `trimtab.planning` first."""
