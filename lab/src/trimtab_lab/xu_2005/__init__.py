"""Xu, Hellerstein, Kramer, Patterson: Control Considerations for Scalable Event Processing (DSOM 2005)."""

from trimtab_lab.xu_2005.balanced_delay import FIGURE_8
from trimtab_lab.xu_2005.delay_under_hog import FIGURE_8_LIVE
from trimtab_lab.xu_2005.dropped_results import FIGURE_3
from trimtab_lab.xu_2005.held_batch_time import FIGURE_6_LIVE
from trimtab_lab.xu_2005.held_free_space import FIGURE_6
from trimtab_lab.xu_2005.ignored_delay import FIGURE_9

EXPERIMENTS = (FIGURE_3, FIGURE_6, FIGURE_6_LIVE, FIGURE_8, FIGURE_8_LIVE, FIGURE_9)
