"""Zacheilas et al.: Dynamic Load Balancing Techniques for Distributed Complex Event Processing Systems (DAIS 2016)."""

from trimtab_lab.zacheilas_2016.detected_events import TABLE_1
from trimtab_lab.zacheilas_2016.retransmissions import FIGURE_3A, FIGURE_3B
from trimtab_lab.zacheilas_2016.scaled_out import FIGURE_4A, FIGURE_4B

EXPERIMENTS = (TABLE_1, FIGURE_3A, FIGURE_3B, FIGURE_4A, FIGURE_4B)
