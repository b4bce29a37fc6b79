"""Loads that decay: a message counts half as much after `half_life` further messages.

Counters aren't updated for that. Instead each message weighs a little more than the one before, and only when the
weights get huge all of them are scaled down at once, by a power of two, which changes no comparison.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from trimtab.errors import BalanceError
from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.router import Float64Array, Int32Array

HUGE = 2.0**400
SHRINK = 2.0**-400


def growth_per_message(half_life: float | None, sources: int = 1) -> float:
    """How much more a message weighs than the one before it from the same source; 1 without decay.

    >>> growth_per_message(None), growth_per_message(1), growth_per_message(10, sources=5)
    (1.0, 2.0, 1.4142135623730951)
    """
    if half_life is None:
        return 1.0
    if not half_life >= 1:
        raise BalanceError("route.option", f"half_life is {half_life}", "it is a number of messages, at least 1")
    return float(2.0 ** (sources / half_life))


@kernel
def shrink(values: Float64Array) -> None:
    """Scale loads down when the weight has passed `HUGE`."""
    for i in range(values.size):
        values[i] *= SHRINK


@kernel
def count(chosen: Int32Array, loads: Float64Array, weight: Float64Array, growth: float) -> None:
    """Add each message to the load of its worker. `weight` (1,) is that of the last message; it is updated."""
    if growth == 1.0:
        for worker in chosen:
            loads[worker] += 1.0
        return
    now = weight[0]
    for worker in chosen:
        now *= growth
        if now > HUGE:
            shrink(loads)
            now *= SHRINK
        loads[worker] += now
    weight[0] = now
