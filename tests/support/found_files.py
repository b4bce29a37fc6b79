"""Folders of files for tests of sources: written with a modification time, and a clock that tests move."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.sources.files import Files
from trimtab.sources.source import Range
from trimtab.state.files import Folder

K = pa.schema({"k": pa.int64()})


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


def numbers(*values: int) -> pa.Table:
    """A table of keys."""
    return pa.table({"k": values}, schema=K)


def source_of(tmp_path: Path, **options: Any) -> Files:
    """The files below `in`, with the log in `log`; all that is there has settled."""
    (tmp_path / "in").mkdir(exist_ok=True)
    options = {"schema": K, "clock": Clock()} | options
    return Files(str(tmp_path / "in"), **options).opened(Folder(str(tmp_path / "log")))


def keys_of(source: Files, start: int, end: int, partition: str = "files") -> list[int | None]:
    """The keys in the files at these positions."""
    found: list[int | None] = source.read(Range(partition, start, end)).table["k"].to_pylist()
    return found
