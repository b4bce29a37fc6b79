"""Heinze and others, Elastic Complex Event Processing under Varying Query Load (2013): FUGU's figures 3 to 7."""

from trimtab_lab.experiment import Experiment
from trimtab_lab.heinze_2013.rates import FIGURE_6
from trimtab_lab.heinze_2013.scaling import FIGURE_3
from trimtab_lab.heinze_2013.thresholds import FIGURE_4, FIGURE_5
from trimtab_lab.heinze_2013.varying_rate import FIGURE_7

EXPERIMENTS: tuple[Experiment, ...] = (FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6, FIGURE_7)
