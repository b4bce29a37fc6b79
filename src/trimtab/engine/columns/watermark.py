"""The watermark: the time before which no more rows are expected. The rule is here, and nowhere else.

It is the newest event time seen so far less the delay, and it never falls. A batch judges its rows by the watermark at
its beginning, so that a row can't make another one of its own batch late; what a batch decides may already use its end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def raised(watermark_us: int | None, newest_us: int | None, delay_us: int) -> int | None:
    """The watermark when rows up to `newest_us` have been seen (None: none); None while nothing has been seen at all.

    >>> raised(None, 100, 10), raised(90, 95, 10), raised(90, None, 10), raised(None, None, 10)
    (90, 90, 90, None)
    """
    if newest_us is None:
        return watermark_us
    own = newest_us - delay_us
    return own if watermark_us is None else max(watermark_us, own)


def is_late(times_us: npt.NDArray[np.int64], watermark_us: int) -> npt.NDArray[np.bool_]:
    """Which rows come too late. A row at the watermark itself doesn't.

    >>> is_late(np.array([89, 90, 91]), 90)
    array([ True, False, False])
    """
    return times_us < watermark_us
