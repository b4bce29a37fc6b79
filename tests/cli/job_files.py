"""A good job file, and how tests read it and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.cli.job_file import read_job_file
from trimtab.cli.job_sections import JobFile
from trimtab.errors import JobError

GOOD = """\
[job]
checkpoint = "checkpoint"
engines = 4
trigger = "200 milliseconds"

[streams.ticks]
format = "parquet"
path = "ticks/"
schema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"
event_time = "ts"
delay = "2 seconds"

[queries.drops]
sql = "SELECT symbol, price FROM ticks WHERE price < 1"

[[queries.drops.sinks]]
format = "parquet"
path = "out/"
"""


def read(folder: Path, text: str) -> JobFile:
    (folder / "job.toml").write_text(text, encoding="utf-8")
    return read_job_file(folder / "job.toml")


def mistakes(folder: Path, text: str) -> list[str]:
    """The lines of the error, without the folder that the test happens to run in."""
    with pytest.raises(JobError) as caught:
        read(folder, text)
    assert caught.value.code == "job.file"
    return str(caught.value).replace(f"{folder}/", "").split("\n")


def mistake(folder: Path, text: str) -> str:
    """The only mistake."""
    (line,) = mistakes(folder, text)
    return line.removeprefix("error[job.file]: ")
