"""The figures that section 3.1 prints, computed again."""

from __future__ import annotations

import math

from trimtab.control import FirstOrderModel, PIGains, spectral_radius
from trimtab.control.model import radius_of
from trimtab_lab.experiment import Table
from trimtab_lab.xu_2005.testbed import PRINTED

PAPER_POLE = complex(0.046, 0.4)
PAPER_GAINS = PIGains(-0.00614, 0.02168)


def corrected_gains() -> PIGains:
    """The gains that do put the poles of the paper's polynomial at its 0.046 +- 0.4i.

    >>> gains = corrected_gains()
    >>> round(gains.proportional, 5), round(gains.integral, 5)
    (-0.00614, -0.00799)
    """
    proportional = (PRINTED.a - abs(PAPER_POLE) ** 2) / PRINTED.b
    return PIGains(proportional, (1 + PRINTED.a - 2 * PAPER_POLE.real) / PRINTED.b - proportional)


def printed_figures() -> Table:
    """What the paper prints, what its own equations give, and the likely cause of the difference."""
    swapped = FirstOrderModel(0.958, PRINTED.b).steady_state_gain
    corrected = corrected_gains()
    rows = (
        (
            "steady state gain",
            -3190.0,
            PRINTED.steady_state_gain,
            f"{swapped:,.0f} is that of a = 0.958: two digits of 0.985 the wrong way round",
        ),
        ("open loop settling time", 264.0, PRINTED.settling_intervals, "agrees; in intervals, printed as seconds"),
        (
            "pole for settling in 5",
            0.449,
            radius_of(5),
            f"agrees, as exp(-4 / 5); the printed exp(-k / 4) would be {math.exp(-5 / 4):.3f}",
        ),
        ("KP", PAPER_GAINS.proportional, corrected.proportional, "agrees with the poles 0.046 +- 0.4i"),
        ("KI", PAPER_GAINS.integral, corrected.integral, "what comes out if 1.985 changes its sign in the linear term"),
        (
            "spectral radius with these gains",
            abs(PAPER_POLE),
            spectral_radius(PRINTED, PAPER_GAINS),
            f"the printed KI is unstable; with the KI of this table it is {spectral_radius(PRINTED, corrected):.2f}",
        ),
    )
    return Table("Section 3.1 computed again", ("figure", "printed", "from its equations", "remark"), rows)
