"""Which tier a test belongs to: what it needs besides Python. `make unit`, `make spark` and so on run one of them.

A test can have a mark with the name of its tier. Otherwise the tier is derived from its fixtures and its path.
"""

from __future__ import annotations

from collections.abc import Collection

TIERS = {
    "unit": "needs nothing: no Spark, no Java, no servers; some two minutes in all",
    "papers": "the lab's experiments and the benchmarks, reduced, and what they stand on",
    "spark": "a Spark session in this process or another",
    "servers": "a server of another kind: Kafka, S3, a browser",
    "cluster": "a Spark cluster with executors that come and go",
    "live": "the lab's experiments on a running Spark",
}
_BY_FIXTURE = {"cluster": "cluster", "broker": "servers", "spark": "spark"}


def tier_of(path: str, marks: Collection[str], fixtures: Collection[str]) -> str:
    """The tier of a test.

    >>> tier_of("tests/engine/test_laws.py", ["slow"], [])
    'unit'
    >>> tier_of("tests/spark/test_jobs.py", [], ["bench", "spark"])
    'spark'
    """
    marked = [tier for tier in TIERS if tier in marks]
    assert len(marked) < 2, f"{path} has a test with the marks of two tiers: {', '.join(marked)}"
    asked = [tier for fixture, tier in _BY_FIXTURE.items() if fixture in fixtures]
    return (marked or asked or ["papers" if path.startswith("lab/") else "unit"])[0]
