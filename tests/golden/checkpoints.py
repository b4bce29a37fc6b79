"""Checkpoints that earlier builds left in the middle of a stream, and the output of their queries until then.

`python -m tests.golden.checkpoints NAME` writes one with this build, once for each format of the state: every later
build has to go on from it. From 2 on the job died when the sinks had taken a batch that wasn't committed yet.
"""

from __future__ import annotations

import datetime
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import trimtab
from tests.golden.queries import QUERIES, SCHEMA
from tests.support.spark_laws import SETTINGS, FileStream, stored
from trimtab.state import manifest

FOLDER = Path(__file__).parent
SUFFIX = ".tar.gz"
BATCHES, BEFORE, ROWS = 6, 3, 12
"""The number of batches of the stream, of batches that the earlier build ran, and of rows in each."""
NOWHERE = "/golden"
"""What replaces the stream's folder in the archive, where Spark's logs name its files."""
_DAWN = datetime.datetime(2026, 1, 1)


def tables() -> list[pa.Table]:
    """The rows of the stream, a table a batch."""
    numbers = range(BATCHES * ROWS)
    rows = pa.table(
        {
            "ts": [_DAWN + datetime.timedelta(milliseconds=700 * n) for n in numbers],
            "k": [n * n % 5 for n in numbers],
            "x": [None if n % 11 == 7 else n * 7 % 5 for n in numbers],
            "y": [n * 37 % 11 / 2 for n in numbers],
            "s": [(None, "a", "ab", "b")[n % 4] for n in numbers],
        },
        schema=SCHEMA,
    )
    return [stored(rows.slice(first, ROWS)) for first in range(0, rows.num_rows, ROWS)]


def run(spark: Any, home: Path, batches: int, *, close: bool) -> Any:
    """Run a job with all queries up to a batch, going on from what is in `home`."""
    shutil.rmtree(home / "t", ignore_errors=True)  # the same files are written again
    stream = FileStream(home / "t", spark, SCHEMA)
    for table in tables()[:batches]:
        stream.add(table)
    checkpoint = str(home / "checkpoint")
    job = trimtab.Job(spark, checkpoint=checkpoint, engines=2, key_groups=8, warm=False, balance=None)
    job.stream("t", stream.frame(), event_time="ts")
    for name, sql in QUERIES.items():
        job.query(name, sql).write("parquet", path=str(home / "answers" / name))
    running = job.start(available_now=True, close=close)
    running.await_termination()
    return running


def write(name: str) -> None:
    """Run the first batches, and archive the checkpoint and the answers."""
    from trimtab.spark.session import start_session

    spark = start_session("golden", "local[2]", SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run(spark, home, BEFORE, close=False)
        _die_before_the_commit(spark, home)
        spark.stop()
        (home / "checkpoint" / "lock").unlink(missing_ok=True)  # it names the machine
        for path in _spark_logs(home):
            if path.suffix == ".crc":
                path.unlink()
            else:
                path.write_text(path.read_text().replace(folder, NOWHERE))
        with tarfile.open(FOLDER / f"{name}{SUFFIX}", "w:gz") as archive:
            for part in ("checkpoint", "answers"):
                archive.add(home / part, part, filter=_without_owner)


def _die_before_the_commit(spark: Any, home: Path) -> None:
    def died(*_: Any, **__: Any) -> None:
        raise RuntimeError("died before the commit")

    kept, manifest.write = manifest.write, died
    try:
        run(spark, home, BEFORE + 1, close=False)
    except RuntimeError:
        return
    finally:
        manifest.write = kept
    raise AssertionError("the job should have died")


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, "", ""
    return entry


def unpack(name: str, home: Path) -> None:
    """Put a kept checkpoint and its answers into a folder."""
    with tarfile.open(FOLDER / f"{name}{SUFFIX}") as archive:
        archive.extractall(home, filter="data")
    for path in _spark_logs(home):
        path.write_text(path.read_text().replace(NOWHERE, str(home)))


def _spark_logs(home: Path) -> list[Path]:
    return [path for path in (home / "checkpoint" / "spark").rglob("*") if path.is_file()]


if __name__ == "__main__":
    write(sys.argv[1])
