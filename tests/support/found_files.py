"""Folders of files for tests of sources: written with a modification time, and a clock that tests move."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class Clock:
    """A clock that only tests move."""

    def __init__(self, now_s: float = 1_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def put(path: Path, content: bytes | pa.Table, *, modified_s: float = 1000.0) -> Path:
    """Write a file that was last changed then; a table as Parquet, or as Arrow if it is named so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, content.schema) as file:
            file.write_table(content)
    else:
        pq.write_table(content, path)
    os.utime(path, (modified_s, modified_s))
    return path
