"""Nasir et al. (2017), "Load Balancing for Skewed Streams on Heterogeneous Clusters": figures 4 and 6 to 15.

The data sets aren't available: streams are synthetic, with the published number of messages, number of keys and share
of the most frequent key (Table I). The paper prints few numbers; what its text says about each figure is checked.
"""

from __future__ import annotations

from trimtab_lab.experiment import Experiment
from trimtab_lab.nasir_2017 import (
    changing_capacities,
    cluster_sizes,
    epsilon_trade_off,
    even_cluster,
    live_workers,
    many_sources,
    skew,
    uneven_cluster,
    virtual_workers,
)

EXPERIMENTS: tuple[Experiment, ...] = (
    skew.EXPERIMENT,
    epsilon_trade_off.EXPERIMENT,
    cluster_sizes.VIRTUAL_WORKERS_EXPERIMENT,
    cluster_sizes.WORKERS_EXPERIMENT,
    even_cluster.EXPERIMENT,
    uneven_cluster.EXPERIMENT,
    many_sources.EXPERIMENT,
    virtual_workers.EXPERIMENT,
    changing_capacities.EXPERIMENT,
    live_workers.EVEN,
    live_workers.UNEVEN,
)
