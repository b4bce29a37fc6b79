"""Madsen, Zhou, Cao: Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine (ICDE 2017)."""

from trimtab_lab.madsen_2017.draining import FIGURE_5
from trimtab_lab.madsen_2017.gathering import FIGURE_10, FIGURE_11
from trimtab_lab.madsen_2017.live_balance import FIGURE_6, FIGURE_7
from trimtab_lab.madsen_2017.moves_allowed import FIGURE_8, FIGURE_9
from trimtab_lab.madsen_2017.solving_time import FIGURE_2, FIGURE_3, FIGURE_4

EXPERIMENTS = (
    *(FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5),
    *(FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9),
    *(FIGURE_10, FIGURE_11),
)
