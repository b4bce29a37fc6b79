"""A source of one's own: a folder of logs that programs append lines to, each log a partition.

    python examples/own_source.py [FOLDER]

A position is a byte of its log: a line belongs to the range that its first byte is in. So positions have gaps, and a
range may be cut anywhere. Without a folder for logs, state and answers, a temporary one is used.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import trimtab
from trimtab.sources.source import UNDECODED, Partition, Range, Rows
from trimtab.testing import check_source

SCHEMA = pa.schema({"machine": pa.int64(), "ts": pa.timestamp("us", "UTC"), "load": pa.float64()})
SQL = """
    SELECT * FROM loads MATCH_RECOGNIZE (PARTITION BY machine ORDER BY ts
      MEASURES FIRST(A.ts) AS since, COUNT(*) AS times
      PATTERN (A A A+) DEFINE A AS A.load > 0.9)
"""


@dataclass(frozen=True)
class Logs:
    """Lines such as "7,2026-01-01T12:00:00Z,0.93" in the files NAME.log of a folder. It pickles: it opens no file."""

    folder: str

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return SCHEMA

    def partitions(self) -> Mapping[str, Partition]:
        """The logs that there are now. All of each can be read, and a new job reads all of it."""
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".log"))
        return {name: Partition(earliest=0, start=0) for name in names}

    def latest(self) -> Mapping[str, int]:
        """Where each log ends: after its last whole line, as another one may be half written."""
        return {name: self._end(name) for name in self.partitions()}

    def read(self, part: Range) -> Rows:
        """The rows whose lines begin in the range, and the lines that can't be read."""
        lines, places = [], []
        with open(self._path(part.partition), "rb") as log:
            if part.start:
                log.seek(part.start - 1)
                log.readline()  # the rest of a line that begins before the range
            while (at := log.tell()) < part.end:
                lines.append(log.readline().rstrip(b"\n"))
                places.append(at)
        fields = [line.split(b",") for line in lines]
        is_whole = [len(each) == len(SCHEMA) and _is_row(each) for each in fields]
        good = [each for each, is_good in zip(fields, is_whole, strict=True) if is_good]
        columns = [pa.array([each[n] for each in good], pa.binary()).cast(pa.string()) for n in range(len(SCHEMA))]
        table = pa.Table.from_arrays([pc.cast(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        bad = [
            {"partition": part.partition, "position": at, "value": line, "reason": "it isn't machine,time,load"}
            for at, line, is_good in zip(places, lines, is_whole, strict=True)
            if not is_good
        ]
        kept = pa.array([at for at, is_good in zip(places, is_whole, strict=True) if is_good], pa.int64())
        return Rows(table, undecoded=pa.Table.from_pylist(bad, UNDECODED) if bad else None, positions=kept)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _end(self, name: str) -> int:
        with open(self._path(name), "rb") as log:
            return log.read().rfind(b"\n") + 1


def _is_row(fields: list[bytes]) -> bool:
    try:
        for text, field in zip(fields, SCHEMA, strict=True):
            pa.scalar(text.decode(), pa.string()).cast(field.type)
    except ValueError:
        return False
    return True


def write_logs(folder: pathlib.Path) -> None:
    """Two logs: machine 1 is busy for a while, machine 2 never; one line is broken, and one is half written."""
    folder.mkdir(parents=True, exist_ok=True)
    loads = {"north": (1, (0.5, 0.95, 0.97, 0.99, 0.2)), "south": (2, (0.1, 0.95, 0.3, 0.2, 0.1))}
    for name, (machine, values) in loads.items():
        lines = [f"{machine},2026-01-01T12:00:0{second}Z,{load}" for second, load in enumerate(values)]
        (folder / f"{name}.log").write_text("\n".join([*lines, "no row", f"{machine},2026-"]))


def run(spark: Any, folder: pathlib.Path) -> None:
    """Write the logs, check the source, and run a job over it to its end."""
    write_logs(folder / "logs")
    source = Logs(str(folder / "logs"))
    check_source(source)
    job = trimtab.Job(spark, checkpoint=str(folder / "checkpoint"))
    job.stream("loads", source, event_time="ts").quarantine("parquet", path=str(folder / "bad"))
    job.query("busy", SQL).write("parquet", path=str(folder / "busy"))
    job.start(available_now=True, close=True).await_termination()
    for row in pq.read_table(folder / "busy").to_pylist():
        print(f"machine {row['machine']} was busy {row['times']} times since {row['since']:%H:%M:%S}")


def main() -> None:
    """Run the example."""
    from trimtab.spark.session import start_session

    # Workers import the module of the source from here.
    session = start_session("own source", "local[2]", {}, [str(pathlib.Path(__file__).parent)])
    with tempfile.TemporaryDirectory() as temporary:
        run(session, pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
    session.stop()


if __name__ == "__main__":
    main()
