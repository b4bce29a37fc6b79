"""The guide to jobs: its blocks of Python run, one after the other, on a real Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trimtab
from trimtab_lab.workloads.ticks import market_ticks

PAGE = Path(__file__).resolve().parent.parent / "docs" / "jobs.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program() -> str:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 5
    # The first job stops somewhere; the second one goes on from there.
    blocks[0] += "import time\nwhile run.is_active and run.progress.batches < 1:\n    time.sleep(0.05)\n"
    return "\n".join(blocks)


STILL_RUNS = """
job = trimtab.Job(spark, checkpoint="still-running", intake=trimtab.Intake(min_rows=10, first_rows=10))
job.stream("made_up", trimtab.Rate(2_000), event_time="ts")
job.query("keys", "SELECT concat('k', k) AS key FROM made_up").write("memory")
run = job.start()
while run.progress.batches < 2:
    time.sleep(0.05)
"""


def write_ticks(folder: Path, rows: int, files: int) -> None:
    """Trades that fall by a tenth now and then, at microseconds of their own, in UTC."""
    ticks = market_ticks(rows, 3, seed=5)
    times = ticks["ts"].to_numpy() + (np.arange(rows) % 1000).astype("timedelta64[us]")
    dice = np.random.default_rng(5)
    prices = ticks["price"].to_numpy() * np.where(dice.random(rows) < 0.01, 0.85, 1.0)
    ticks = ticks.set_column(1, "ts", pa.array(times).cast(pa.timestamp("us", "UTC")))
    ticks = ticks.set_column(2, "price", pa.array(prices)).sort_by("ts")
    folder.mkdir()
    for number in range(files):
        path = folder / f"{number}.parquet"
        pq.write_table(ticks.slice(number * rows // files, rows // files), path)
        os.utime(path, (1_700_000_000 + number,) * 2)


def test_the_version_is_that_of_the_changelog() -> None:
    changelog = (PAGE.parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {trimtab.__version__}\n" in changelog


@pytest.mark.spark
def test_the_blocks_of_the_guide_to_jobs_run(tmp_path: Path) -> None:
    """And the process ends well, although its threads compute with C++ code until then."""
    write_ticks(tmp_path / "ticks", 6_000, 3)
    code = program() + STILL_RUNS
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    drops = pq.read_table(tmp_path / "drops")
    assert drops.num_rows > 10
    assert "fell from" in ran.stdout
    assert "|symbol|" in ran.stdout
