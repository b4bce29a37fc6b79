"""`trimtab run` as a process of its own on Spark, ended by SIGTERM as a service manager or a container does it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

JOB = """\
[job]
checkpoint = "checkpoint"
engines = 2
trigger = "200 milliseconds"
[spark]
master = "local[2]"
[streams.ticks]
format = "json"
path = "ticks"
schema = "symbol BIGINT, ts TIMESTAMP"
event_time = "ts"
[queries.symbols]
sql = "SELECT symbol FROM ticks"
[[queries.symbols.sinks]]
format = "parquet"
path = "out"
"""
PATIENCE_S = 120


@pytest.mark.spark  # in a process of its own
@pytest.mark.parametrize("is_for_all", [False, True], ids=["the process", "its whole group"])
def test_sigterm_ends_a_job_without_a_traceback(tmp_path: Path, is_for_all: bool) -> None:
    (tmp_path / "ticks").mkdir()
    (tmp_path / "ticks" / "1.json").write_text('{"symbol": 1, "ts": "2026-01-01 00:00:00"}\n')
    (tmp_path / "job.toml").write_text(JOB)
    command = [sys.executable, "-m", "trimtab.cli.main", "run", "job.toml", "--plain"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        timer = threading.Timer(PATIENCE_S, process.kill)
        timer.start()
        try:
            before = iter(process.stdout.readline, "")
            assert any(line.startswith("ticks batch 0: 1 events") for line in before)
            (os.killpg if is_for_all else os.kill)(process.pid, signal.SIGTERM)
            out, err = process.communicate()
        finally:
            timer.cancel()
            process.kill()
    assert process.returncode == 0
    first, *others = out.splitlines()
    assert first == "asked to stop: ending after this batch (Ctrl-C: at once)"
    assert others[0].startswith("1 batch, 1 event in ")
    assert not any("asked" in line or "at once" in line for line in others), "one line about the signal"
    assert not re.search(r"Traceback|Exception|^\tat |error\[", err, re.MULTILINE), err
