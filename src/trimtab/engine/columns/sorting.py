"""A stable counting sort, compiled; importing this imports Numba. `numpy.argsort(kind="stable")` is its plain twin."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel


@kernel
def counting_order(codes, count):
    """The order that sorts `codes` (each below `count`) and keeps equal ones as they stand."""
    starts = np.zeros(count + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for k in range(count):
        starts[k + 1] += starts[k]
    order = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        code = codes[i]
        order[starts[code]] = i
        starts[code] += 1
    return order
