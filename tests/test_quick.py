"""A run without the tests on Spark starts no Spark: a test that would start it is left out, or fails and says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROBE = """
import pytest
from trimtab.spark.session import start_session

@pytest.fixture
def spark():
    return start_session("asked for", "local[1]")

@pytest.fixture
def bench(spark):
    return spark

def test_that_asks_for_a_session(bench):
    pass

def test_that_starts_a_session_without_a_mark():
    start_session("unmarked", "local[1]")
"""


def test_a_test_that_asks_for_a_session_is_left_out_and_one_that_starts_it_unmarked_fails(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="it is in the extra `spark`")
    (tmp_path / "test_probe.py").write_text(PROBE)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-m", "unit", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "1 failed, 1 deselected" in done.stdout, done.stdout + done.stderr
    assert "This test starts Spark" in done.stdout
    assert "@pytest.mark.spark" in done.stdout
