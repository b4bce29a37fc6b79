"""What `trimtab warm` compiles if the lab is installed: the kernels of its routers and planners."""

from __future__ import annotations

import numpy as np

from trimtab_lab.planners import OF_THE_LAB
from trimtab_lab.routers import ROUTERS
from trimtab_lab.workloads.clusters import synthetic_cluster

COMPILED = tuple(name for name in OF_THE_LAB if name != "paper_milp")
"""The planners that have kernels. The printed program has none: HiGHS would solve it for half a minute."""


def routers() -> None:
    """Run every router of the papers, on hot keys and others."""
    keys = np.concatenate([np.zeros(50, np.int64), np.arange(50)])
    for kind in ROUTERS.values():
        router = kind(4, seed=1)
        router.route(keys)
        router.route(keys)


def planners() -> None:
    """Run every planner that no job uses and that has kernels."""
    problem = synthetic_cluster(6, 60, varies=20.0, seed=1, operators=3, one_to_one=50.0, max_moves=8)
    for name in COMPILED:
        OF_THE_LAB[name].planner(problem)


PARTS = {"lab-routers": routers, "lab-planners": planners}
