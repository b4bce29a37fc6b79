"""Beyond FUGU: what its paper leaves to future work, and what it can be joined with."""

from trimtab_lab.beyond_fugu.collocation import COLLOCATION
from trimtab_lab.beyond_fugu.runtime import RUNTIME
from trimtab_lab.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (RUNTIME, COLLOCATION)
