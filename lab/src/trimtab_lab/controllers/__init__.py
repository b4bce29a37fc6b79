"""Controllers that divide work among several elements, as in Xu (2005); those of one loop: `trimtab.control`."""

from trimtab_lab.controllers.balancer import BalancerState, LoadBalancer
from trimtab_lab.controllers.lqr import balance_by_lqr, balanced_radius
from trimtab_lab.controllers.pair import PairBalancer, pair_model

__all__ = ["BalancerState", "LoadBalancer", "PairBalancer", "balance_by_lqr", "balanced_radius", "pair_model"]
