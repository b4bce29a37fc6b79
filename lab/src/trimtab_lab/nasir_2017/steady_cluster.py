"""Consistent grouping on an even cluster under a steady stream, with workers' signals: figures 8 and 11."""

from __future__ import annotations

import numpy as np

from trimtab_lab.routers import ConsistentGrouping
from trimtab_lab.routers.router import Int64Array
from trimtab_lab.simulation.arrivals import Arrivals
from trimtab_lab.simulation.message_cluster import simulate_messages
from trimtab_lab.simulation.worker_signals import ByUtilisation
from trimtab_lab.simulation.worker_speeds import WorkerSpeeds

VIRTUAL_WORKERS = 10
UTILISATION = 0.8
"""The utilisation of workers under shuffle grouping: between the two thresholds, as in the paper."""

MESSAGES_A_SLOT = 2_000
"""Messages of one worker: a time slot must hold "enough sample of the input stream" (section V-B) at any cluster size.

With a tenth of it, workers at a utilisation of 80 % signal busy or idle in a quarter to a third of their slots, by
chance alone; with this, hardly ever (10 and 100 workers, 5 M messages)."""


def after_a_steady_stream(workers: int, keys: Int64Array, *, sources: int, seed: int) -> ConsistentGrouping:
    """The router after all keys, with signals of its workers after every slot."""
    router = ConsistentGrouping(workers, virtual_workers=VIRTUAL_WORKERS, sources=sources, seed=seed)
    slots = max(10, keys.size // (workers * MESSAGES_A_SLOT))
    arrivals = Arrivals.steady(keys.size, slots=slots, slot_s=1.0)
    speeds = WorkerSpeeds.constant(np.full(workers, keys.size / slots / workers / UTILISATION))
    simulate_messages(router, keys, arrivals, speeds, signals=ByUtilisation(), seed=seed)
    return router
