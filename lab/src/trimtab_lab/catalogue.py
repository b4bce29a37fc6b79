"""All experiments, in reading order.

The papers' modules are imported only when `experiments` is called, as they import Numba and the planners.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from trimtab_lab.experiment import Experiment

MODULES = (
    "trimtab_lab.heinze_2013",
    "trimtab_lab.madsen_2017",
    "trimtab_lab.nasir_2017",
    "trimtab_lab.xu_2005",
    "trimtab_lab.zacheilas_2016",
    "trimtab_lab.beyond",
    "trimtab_lab.beyond_fugu",
    "trimtab_lab.beyond_scale",
    "trimtab_lab.elastic",
)
"""One module per paper, and those of our own experiments; each has a tuple `EXPERIMENTS`."""


def experiments(modules: Sequence[str] = MODULES) -> dict[str, Experiment]:
    """The experiments of the modules by id, in order.

    Asserts that no two have the same id.
    """
    found: dict[str, Experiment] = {}
    for name in modules:
        for experiment in importlib.import_module(name).EXPERIMENTS:
            assert experiment.id not in found, f"two experiments are called {experiment.id}"
            found[experiment.id] = experiment
    return found
