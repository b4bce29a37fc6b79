"""next_shares: which part of a batch's rows each executor reads, so that all of them are done at the same time.

It is the paper's load balancer (section 3.2): the response of an executor is how long it read, the reference is the
mean of all of them, and what is set are their shares. For two executors the regulator is the paper's PI controller on
the difference of their responses. No clock and no I/O.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from trimtab.control.lqr import balance_by_lqr
from trimtab.control.model import FirstOrderModel
from trimtab.control.share_balancer import BalancerState, LoadBalancer

CAUTION, INTEGRAL_WEIGHT = 1.0, 0.1
"""The poles of the loop of equal executors are then 0 and 0.8: a difference is halved in three batches."""

LEAST_SHARE = 0.1
"""Of an even share, what the slowest executor still reads: what reads nothing can't be measured. A change of its share
then does at most ten times as much as the regulator takes it to do, and the gain margin is 10.4: the loop is stable
however much the executors' speeds differ."""


@dataclass(frozen=True, slots=True)
class SharesState:
    """What is remembered from batch to batch. Plain values.

    names       the executors
    shares      the part of the rows of each
    deviations  the regulator's measurements of the last batch; None: there was none
    """

    names: tuple[str, ...]
    shares: tuple[float, ...]
    deviations: tuple[float, ...] | None = None

    @classmethod
    def even(cls, names: tuple[str, ...]) -> SharesState:
        """The state before anything was measured."""
        return cls(names, (1 / len(names),) * len(names))

    @property
    def by_name(self) -> dict[str, float]:
        """The part of the rows of each executor."""
        return dict(zip(self.names, self.shares, strict=True))

    def as_json(self) -> dict[str, Any]:
        """The state as plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SharesState:
        """The state that `as_json` returned, also if it has been JSON in the meantime."""
        deviations = values["deviations"]
        return cls(tuple(values["names"]), tuple(values["shares"]), None if deviations is None else tuple(deviations))


def next_shares(state: SharesState | None, seconds: Mapping[str, float | None]) -> SharesState | None:
    """The shares for the next batch; None: there are fewer than two executors, and nothing to share.

    seconds   by executor, all that there are: how long it read in the last batch, as an average over the tasks that it
              runs at a time; None: it didn't read

    If executors have come or gone, the shares are even again, and are learned anew.

    >>> state = next_shares(None, {"0": None, "1": None})
    >>> for _ in range(30):
    ...     state = next_shares(state, {"0": 2 * state.shares[0], "1": state.shares[1]})  # "0" is half as fast
    >>> [round(share, 2) for share in state.shares]
    [0.33, 0.67]
    """
    names = tuple(sorted(seconds))
    if len(names) < 2:
        return None
    if state is None or state.names != names:
        state = SharesState.even(names)
    known = [value for name in names if (value := seconds[name]) is not None and value > 0]
    if len(known) < len(names):
        return state
    responses = np.array(known)
    deviations = None if state.deviations is None else np.array(state.deviations)
    before = BalancerState(np.array([state.shares]), deviations)
    after, shares = _regulator(len(names)).step(before, responses / responses.mean())
    assert after.deviations is not None
    return SharesState(names, tuple(shares.tolist()), tuple(after.deviations.tolist()))


@lru_cache(maxsize=64)
def _regulator(executors: int) -> LoadBalancer:
    """Nothing is left of a batch's reading in the next one; a share counts as the time of as many rows."""
    model = FirstOrderModel(0.0, float(executors), delay=0)
    return balance_by_lqr(
        [model] * executors, caution=CAUTION, integral_weight=INTEGRAL_WEIGHT, minimum=LEAST_SHARE / executors
    )
