"""The watermark: the time before which no more rows are expected. The rule is here, and nowhere else.

It is the newest event time so far less the delay, and it never falls. A batch judges its rows by the watermark at
its beginning, so that a row can't make another one of its own batch late; what a batch decides may already use its end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def raised(watermark_us: int | None, newest_us: int | None, delay_us: int) -> int | None:
    """The watermark after rows up to `newest_us` (None: there were none); None before the first row of all.

    >>> raised(None, 100, 10), raised(90, 95, 10), raised(90, None, 10), raised(None, None, 10)
    (90, 90, 90, None)
    """
    assert delay_us >= 0, f"a delay of {delay_us} us"
    if newest_us is None:
        return watermark_us
    after_us = newest_us - delay_us if watermark_us is None else max(watermark_us, newest_us - delay_us)
    check_follows(watermark_us, after_us)
    return after_us


def check_follows(before_us: int | None, after_us: int | None) -> None:
    """Assert that one watermark may follow another: it may stay or rise, and never falls or gets lost.

    >>> check_follows(None, 5), check_follows(5, 5)
    (None, None)
    """
    fell = before_us is not None and (after_us is None or after_us < before_us)
    assert not fell, f"the watermark fell from {before_us} to {after_us}"


def is_late(times_us: npt.NDArray[np.int64], watermark_us: int) -> npt.NDArray[np.bool_]:
    """Which rows come too late. A row at the watermark itself doesn't.

    >>> is_late(np.array([89, 90, 91]), 90)
    array([ True, False, False])
    """
    return times_us < watermark_us
