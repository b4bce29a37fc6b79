"""Which failures of a batch's job are the machine's: a worker or an executor was lost, and trying again is right.

A cluster tries tasks again by itself; `local[n]` doesn't, and even a cluster gives up on a bad day. An engine's work
has no effect until it is committed, so the whole job can be repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

RETRIES = 3
PAUSE_S = 0.2
_SIGNS = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "Executor heartbeat timed out",
    "MetadataFetchFailedException",
    "FetchFailed",
    "Connection reset",
    "Broken pipe",
    "Failed to connect to",
    "Could not find Python worker",
    "EOFException",
    "SocketException",
    "SparkOutOfMemoryError",
)
log = logging.getLogger("trimtab")


def is_lost_worker(error: BaseException) -> bool:
    """Whether the error tells of a process that went away."""
    text = str(error)
    return any(sign in text for sign in _SIGNS)


def retried(work: Callable[[], Answer], *, retries: int = RETRIES, pause_s: float = PAUSE_S) -> Answer:
    """The answer of the work, tried again while the machine is at fault; anything else is raised at once."""
    for attempt in range(retries):
        try:
            return work()
        except Exception as error:
            if not is_lost_worker(error):
                raise
            log.warning("a worker was lost; the batch runs again (%d of %d retries)", attempt + 1, retries)
            time.sleep(pause_s * 2**attempt)
    return work()
