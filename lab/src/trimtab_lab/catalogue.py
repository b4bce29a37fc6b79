"""Every experiment there is, in reading order.

The papers' files are imported when they are asked for, as they bring Numba and the planners with them.
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
"""One module a paper, and those of our own rows; each has a tuple `EXPERIMENTS`."""


def experiments(modules: Sequence[str] = MODULES) -> dict[str, Experiment]:
    """The experiments of the modules by id, in order.

    Two of the same id are a mistake of ours, found here.
    """
    found: dict[str, Experiment] = {}
    for name in modules:
        for experiment in importlib.import_module(name).EXPERIMENTS:
            assert experiment.id not in found, f"two experiments are called {experiment.id}"
            found[experiment.id] = experiment
    return found
