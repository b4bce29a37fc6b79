"""The compiled twin of `paths.running`; importing this imports Numba."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel


@kernel
def scan(function, values, known, owner):
    """Running sum (0, 1), minimum (2) or maximum (3) over the steps of each owner."""
    out = np.zeros_like(values)
    before, empty = -1, True
    state = values.dtype.type(0)
    for i in range(values.size):
        if owner[i] != before:
            before, empty, state = owner[i], True, values.dtype.type(0)
        if known[i]:
            value = values[i]
            if empty:
                state = value
            elif function <= 1:
                state = state + value
            elif function == 2:
                state = min(state, value)
            else:
                state = max(state, value)
            empty = False
        out[i] = state
    return out
