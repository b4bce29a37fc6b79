"""Every test of windows runs twice: with machine code, and with the same kernels as plain Python.

A job runs the one until the other is there, and swaps between two batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trimtab.machine_code.kernel import Kernel


@pytest.fixture(autouse=True, scope="module", params=["machine code", "plain Python"])
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain Python":
            patch.setattr(Kernel, "__call__", Kernel.plain)
        yield request.param
