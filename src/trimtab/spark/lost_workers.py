"""Retries a batch's Spark job when a worker or an executor was lost.

A cluster retries tasks by itself, but gives up after some failures, and `local[n]` doesn't retry. An engine's work has
no effect until it is committed, so the whole job can be repeated.
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
    "Python worker exited unexpectedly", "Python worker failed to connect back", "Could not find Python worker",
    "ExecutorLostFailure", "Executor heartbeat timed out", "MetadataFetchFailedException", "FetchFailed",
    "Connection reset", "Broken pipe", "Failed to connect to", "EOFException", "SocketException",
    "SparkOutOfMemoryError",
)  # fmt: skip
log = logging.getLogger("trimtab")


def retried(work: Callable[[], Answer], *, retries: int = RETRIES, pause_s: float = PAUSE_S) -> Answer:
    """The result of the work, which is retried when a worker was lost; any other error is raised at once."""
    for attempt in range(retries):
        try:
            return work()
        except Exception as error:
            if not any(sign in str(error) for sign in _SIGNS):
                raise
            log.warning("a worker was lost; the batch runs again (%d of %d retries)", attempt + 1, retries)
            time.sleep(pause_s * 2**attempt)
    return work()
