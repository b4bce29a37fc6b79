"""One colour per planner in all figures of this paper; colour-blind people can distinguish them (Okabe and Ito)."""

OURS = "#0072b2"
"""MILP, ALBIC, the integrated plan: what the paper proposes."""

OTHERS = "#d55e00"
"""Flux, COLA, drain then balance: what it is compared with."""

BOUND = "#4d4d4d"
"""Proven bounds, and limits."""

BLUES = ("#9ecae1", "#4292c6", "#084594")
ORANGES = ("#fdae6b", "#e6550d", "#8c2d04")
"""The same planners at three values of a parameter, light to dark."""
