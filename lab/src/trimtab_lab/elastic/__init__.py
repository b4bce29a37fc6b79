"""Live experiments of our own on engines and executors that differ, slow down, come and go.

Importing these modules imports neither Spark nor Numba beyond what feeds need: jobs run in a process of their own.
"""

from __future__ import annotations

from trimtab_lab.elastic import day, levels, slow_host
from trimtab_lab.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (levels.EXPERIMENT, slow_host.EXPERIMENT, day.EXPERIMENT)
