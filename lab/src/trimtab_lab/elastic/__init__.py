"""Our own live experiments: engines and executors that differ in speed, slow down, are added and removed.

Importing these modules imports neither Spark nor Numba beyond what feeds need: jobs run in another process.
"""

from __future__ import annotations

from trimtab_lab.elastic import day, levels, slow_host
from trimtab_lab.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (levels.EXPERIMENT, slow_host.EXPERIMENT, day.EXPERIMENT)
