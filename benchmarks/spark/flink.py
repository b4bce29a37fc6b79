"""Flink's MATCH_RECOGNIZE over the same ticks, in its own virtual environment: its pinned versions conflict with ours.

The environment is made on first use, in the user's cache folder, and needs the network and a Java 11 or 17.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from benchmarks.spark.pattern import MATCH_COLUMNS, Match
from benchmarks.spark.ticks import read_ticks, write_ticks

PACKAGES = ("apache-flink==2.3.0",)
VENV_VARIABLE = "TRIMTAB_FLINK_VENV"
_JOB = Path(__file__).with_name("flink_job.py")


@dataclass(frozen=True, slots=True)
class FlinkRuns:
    """How long each run took, by Flink's clock: from the start of the job to its end, without starting Flink."""

    rows: int
    seconds: tuple[float, ...]

    def events_per_s(self, *, warm_up: int = 1) -> float:
        """Events a second of the best run, without the first ones if there are more."""
        return self.rows / min(self.seconds[warm_up:] or self.seconds)


def flink_venv() -> Path:
    """The Python of Flink's environment: the one that TRIMTAB_FLINK_VENV names, or else one in the cache folder."""
    named = os.environ.get(VENV_VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = Path(named) if named else cache / "trimtab" / "flink"
    python, ready = folder / "bin" / "python", folder / "ready"
    if named or ready.exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    # Flink's dependencies need a setuptools that still has pkg_resources.
    for packages in (("setuptools<81", "wheel"), PACKAGES):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    ready.touch()  # only now: an interrupted installation starts again
    return python


def write_csv(files: Sequence[Path], target: Path) -> int:
    """Write the ticks of the files to one CSV, in order of time, as the job needs them; return the number of rows."""
    table = read_ticks(files)
    milliseconds = pc.divide(table["ts"].cast(pa.int64()), 1000)
    plain = pa.table({"symbol": table["symbol"], "ms": milliseconds, "price": table["price"]})
    pacsv.write_csv(plain, target, pacsv.WriteOptions(include_header=False))
    return int(plain.num_rows)


def run(files: Sequence[Path], *, runs: int = 2, parallelism: int = 2) -> FlinkRuns:
    """Time the job, whose matches are discarded. The first run also warms up."""
    with tempfile.TemporaryDirectory(prefix="trimtab-flink-") as name:
        ticks = Path(name, "ticks.csv")
        rows = write_csv(files, ticks)
        answer = _job("--ticks", str(ticks), "--runs", str(runs), "--parallelism", str(parallelism))
        return FlinkRuns(rows, tuple(answer["seconds"]))


def matches(files: Sequence[Path], *, parallelism: int = 2) -> list[Match]:
    """The matches, sorted."""
    with tempfile.TemporaryDirectory(prefix="trimtab-flink-") as name:
        ticks, found = Path(name, "ticks.csv"), Path(name, "found")
        write_csv(files, ticks)
        _job("--ticks", str(ticks), "--found", str(found), "--parallelism", str(parallelism))
        read = pacsv.ReadOptions(column_names=MATCH_COLUMNS)
        types = pacsv.ConvertOptions(column_types=dict.fromkeys(("top", "bottom", "back"), pa.float64()))
        # The names of unfinished files start with a dot.
        parts = [pacsv.read_csv(part, read, convert_options=types) for part in sorted(found.glob("[!._]*"))]
    columns = [column.to_pylist() for column in pa.concat_tables(parts).columns]
    return sorted(
        (symbol, top, bottom, back, began * 1000, ended * 1000)
        for symbol, top, bottom, back, began, ended in zip(*columns, strict=True)
    )


def _job(*arguments: str) -> dict[str, list[float]]:
    # In an empty folder: Python searches it first, and files such as proto.py would hide modules that Flink imports.
    with tempfile.TemporaryDirectory(prefix="trimtab-flink-") as empty:
        script = Path(empty, "flink_job.py")
        script.write_bytes(_JOB.read_bytes())  # for the same reason: Python searches a script's own folder first
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [flink_venv(), str(script), *arguments],
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"Flink's job failed:\n{done.stdout}\n{done.stderr}")
    answer: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Run it on 100,000 ticks."""
    with tempfile.TemporaryDirectory() as name:
        files = write_ticks(Path(name), 1, 100_000, 10_000)
        timed = run(files)
        print(f"Flink: {timed.events_per_s():,.0f} events/s ({timed.seconds} s), {len(matches(files)):,} matches")


if __name__ == "__main__":
    main()
