"""The watermark: the time before which no more rows are expected. This is the only place with its rule.

It is the newest event time so far minus the delay, and it never falls. Whether a row is late is decided by the
watermark at the beginning of its batch, so that no row makes another one of its batch late; operators get the watermark
at the end of the batch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def raised(watermark_us: int | None, newest_us: int | None, delay_us: int) -> int | None:
    """The watermark after rows up to `newest_us` (None: there were none); None before the first row.

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
    """Assert that one watermark may follow another: it may stay or rise, but not fall or become None.

    >>> check_follows(None, 5), check_follows(5, 5)
    (None, None)
    """
    fell = before_us is not None and (after_us is None or after_us < before_us)
    assert not fell, f"the watermark fell from {before_us} to {after_us}"


def is_late(times_us: npt.NDArray[np.int64], watermark_us: int) -> npt.NDArray[np.bool_]:
    """Which rows are too late. A row exactly at the watermark is not.

    >>> is_late(np.array([89, 90, 91]), 90)
    array([ True, False, False])
    """
    return times_us < watermark_us
