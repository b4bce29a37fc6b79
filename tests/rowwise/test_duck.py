"""DuckDB's connections: one for each thread, and none is closed when its thread ends."""

from __future__ import annotations

import subprocess
import sys
import threading

from trimtab.rowwise import duck

ENDS_WITH_A_THREAD = """
import threading
import pyarrow as pa
from trimtab.rowwise import duck

def work():
    duck.compute(pa.table({"x": [1]}), ["x + 1"])
    computed.set()

computed = threading.Event()
threading.Thread(target=work, daemon=True).start()
computed.wait()
"""


def test_a_process_may_end_together_with_a_thread_that_has_computed() -> None:
    ran = subprocess.run([sys.executable, "-c", ENDS_WITH_A_THREAD], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_each_thread_has_its_own_connection_and_leaves_it_to_a_later_one() -> None:
    found: list[object] = [duck.connection()]
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.append(duck.connection()))
        thread.start()
        thread.join()
    mine, first, second = found
    assert duck.connection() is mine
    assert mine is not first
    assert first is second
