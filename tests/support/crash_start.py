"""One start of the job that the crash law kills: where it runs, where its checkpoint is, and its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.state.s3_server import location
from tests.support.s3a import s3a_settings
from trimtab_lab.live.cluster import Cluster
from trimtab_lab.live.processes import MARK, Process, marked, new_mark

LEASE_S = 6.0
"""Until the lock of a killed job is free, where it is a lease; a minute would be most of the time."""


@dataclass(slots=True)
class Attempt:
    """One start of the job: the process, its mark, and its log."""

    process: subprocess.Popen[bytes]
    mark: str
    log: Path
    deliberate: bool = False  # whether we killed its driver

    def of_kind(self, kind: str, cluster: Cluster | None) -> list[Process]:
        """The processes that a kill of this kind can choose from."""
        own = marked(self.mark)
        if kind == "driver's python":
            return [each for each in own if each.pid == self.process.pid]
        if kind == "driver's jvm":
            return [each for each in own if "deploy.SparkSubmit" in each.command]
        if kind == "compiler":
            return [each for each in own if "machine_code.compiler" in each.command]
        if kind == "executor":
            return [] if cluster is None else cluster.executors()
        forked = [
            each for each in [*own, *(cluster.processes() if cluster else [])] if "pyspark.daemon" in each.command
        ]
        pids = {each.pid for each in forked}
        return [each for each in forked if (each.parent in pids) == (kind == "python worker")]


@dataclass(frozen=True, slots=True)
class Place:
    """Where jobs run, and where their checkpoints are; no cluster: on `local[2]`, no port: on a local disk."""

    cluster: Cluster | None = None
    s3_port: int | None = None

    def checkpoint(self, home: Path) -> str:
        """The location of a job's checkpoint."""
        return str(home / "checkpoint") if self.s3_port is None else location(self.s3_port, home.name)

    @property
    def arguments(self) -> list[str]:
        """Arguments of the job's process."""
        settings: dict[str, str] = {}
        chosen: list[str] = []
        if self.cluster is not None:
            settings = {**self.cluster.settings, "spark.cores.max": str(self.cluster.workers * self.cluster.cores)}
            chosen = ["--master", self.cluster.url]
        if self.s3_port is not None:
            settings |= s3a_settings(self.s3_port)
            chosen += ["--lease", str(LEASE_S)]
        return [*chosen, *(f"--conf={name}={value}" for name, value in settings.items())]


HERE = Place()


def start_job(home: Path, folder: Path, location: str, options: Sequence[str]) -> Attempt:
    """Start the job in a session of its own."""
    mark = new_mark()
    command = [sys.executable, "-m", "tests.support.crash_job", location, str(folder), str(home / "output"), *options]
    log = home / f"log-{len(list(home.glob('log-*'))):03d}.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            env={**os.environ, MARK: mark, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Attempt(process, mark, log)
