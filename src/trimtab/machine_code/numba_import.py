"""Numba, imported in a thread: it takes 0.3 s, and ten times as long where Python has no bytecode of it yet."""

from __future__ import annotations

import importlib
import threading

_lock = threading.Lock()
_threads: list[threading.Thread] = []


def is_numba_there() -> bool:
    """Whether Numba is imported; if not, start importing it in a thread. The caller runs plain Python until then."""
    with _lock:
        if not _threads:
            module = "trimtab.machine_code.dispatcher"
            thread = threading.Thread(target=importlib.import_module, args=(module,), name="trimtab-numba", daemon=True)
            thread.start()
            _threads.append(thread)
        return not _threads[0].is_alive()
