"""In which order `pytest --dist loadfile --no-loadscope-reorder -n 3` hands files to processes.

What takes long comes first, so that the processes end at about the same time. Kernels are compiled before that, by
`trimtab warm`, and what is generated for a query is shared through the cache.
"""

from __future__ import annotations

FIRST = (
    "lab/tests/test_experiments.py",
    "lab/tests/test_live.py",
    "tests/spark/",
    "lab/tests/demo/test_demo_on_spark.py",
    "tests/test_jobs_page.py",
    "tests/test_from_kafka_page.py",
    "tests/test_wheel.py",
    "tests/cli/test_run_signals.py",
    "tests/engine/",
    "tests/planning/",
    "tests/test_benchmarks.py",
    "tests/language/",
    "tests/state/",
    "lab/tests/simulation/",
)
"""Beginnings of the names of files, in the order in which they are handed out; the others take seconds."""


def turn_of(file: str) -> int:
    """When a file is handed out: the lower, the earlier.

    >>> sorted(["tests/test_docs.py", "tests/engine/test_laws.py", "tests/spark/test_jobs.py"], key=turn_of)
    ['tests/spark/test_jobs.py', 'tests/engine/test_laws.py', 'tests/test_docs.py']
    """
    return next((turn for turn, start in enumerate(FIRST) if file.startswith(start)), len(FIRST))
