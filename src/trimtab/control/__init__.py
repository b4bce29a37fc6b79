"""Feedback: models fitted to measurements, controllers designed from them, and loops checked before they run.

`IntakeController` decides how many rows each batch of a stream may take, and `ranges` how partitions share them.

For other loops the order of use is `excitation` -> `identify` -> `place_poles` -> `is_stable`, `step_response` ->
`PIController`. All are immutable values: a controller is a frozen description, and its state is passed to `step` and
returned. Xu 2005; Hellerstein and others, Feedback Control of Computing Systems (2004).
"""

from trimtab.control.controller import Controller
from trimtab.control.excitation import Schedule, excitation
from trimtab.control.identify import Identified, identify
from trimtab.control.intake import Held, Intake, IntakeLimit, IntakeObserved
from trimtab.control.intake_controller import IntakeController, IntakeState
from trimtab.control.loop import PIGains, closed_loop, gain_margin, is_stable, poles, spectral_radius
from trimtab.control.lqr import balance_by_lqr, balanced_radius
from trimtab.control.model import FirstOrderModel, settling_of
from trimtab.control.pair import PairBalancer, pair_model
from trimtab.control.pi import PIController, PIState
from trimtab.control.pole_placement import Design, place_poles
from trimtab.control.reading_shares import SharesState, next_shares
from trimtab.control.response import StepResponse, settled_after, step_response
from trimtab.control.share_balancer import BalancerState, LoadBalancer
from trimtab.control.sharing import PartitionBacklog, measured_density, ranges

__all__ = [
    "BalancerState",
    "Controller",
    "Design",
    "FirstOrderModel",
    "Held",
    "Identified",
    "Intake",
    "IntakeController",
    "IntakeLimit",
    "IntakeObserved",
    "IntakeState",
    "LoadBalancer",
    "PIController",
    "PIGains",
    "PIState",
    "PairBalancer",
    "PartitionBacklog",
    "Schedule",
    "SharesState",
    "StepResponse",
    "balance_by_lqr",
    "balanced_radius",
    "closed_loop",
    "excitation",
    "gain_margin",
    "identify",
    "is_stable",
    "measured_density",
    "next_shares",
    "pair_model",
    "place_poles",
    "poles",
    "ranges",
    "settled_after",
    "settling_of",
    "spectral_radius",
    "step_response",
]
