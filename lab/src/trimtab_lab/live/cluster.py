"""A real Spark cluster on one machine: a standalone master and workers on 127.0.0.1, from the pip package.

    with Cluster(workers=2) as cluster:
        spark = SparkSession.builder.master(cluster.url).getOrCreate()

Every executor is a process with its own Python workers: killing one is like losing a machine.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from trimtab_lab.live.processes import MARK, POLL_S, Process, end_all, marked, new_mark

HOST = "127.0.0.1"
PATIENCE_S = 90.0
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


class ClusterError(RuntimeError):
    """The cluster could not be started; the message has the end of the log."""


def spark_home() -> Path:
    """The folder of the pip package, which has everything that a cluster needs."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ClusterError("there is no pyspark here: pip install 'trimtab[spark]'")
    return Path(found.origin).parent


@dataclass(slots=True)
class _Part:
    """The master or a worker: its process, and where its log is."""

    process: subprocess.Popen[bytes]
    log: Path
    log_start: int  # where this process's lines begin

    def log_text(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self.log_start)
            return file.read().decode(errors="replace")


@dataclass(slots=True)
class Cluster:
    """A master and some workers; started by `with`, and ended after it in any case.

    Args:
        workers: How many worker processes, each with one executor for each application.
        cores: How many tasks a worker runs at a time.
        memory: How much memory a worker has for executors.
        folder: Where logs and the workers' files go; kept. By default a temporary one, which is removed.
    """

    workers: int = 2
    cores: int = 1
    memory: str = "1g"
    folder: Path | None = None
    url: str = ""  # of the master: spark://127.0.0.1:<port>
    _mark: str = field(default_factory=new_mark)
    _parts: dict[str, _Part] = field(default_factory=dict)
    _own_folder: Path | None = None

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of an application on this cluster: it uses 127.0.0.1, and its executors fit the workers."""
        return {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.memory": "512m",
            "spark.executorEnv.SPARK_LOCAL_IP": HOST,
            "spark.pyspark.python": sys.executable,
        }

    def __enter__(self) -> Self:
        """Start the master, then the workers, and wait until all are registered."""
        if self.folder is None:
            self.folder = self._own_folder = Path(tempfile.mkdtemp(prefix="trimtab-cluster-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        atexit.register(self.stop)
        try:
            master = self._start("master", [_MASTER, "--host", HOST, "--port", "0", "--webui-port", "0"])
            self.url = self._await(master, _MASTER_AT).group(1)
            for number in range(self.workers):
                self._start_worker(number)
            for number in range(self.workers):
                self._await(self._parts[_name(number)], re.compile(_REGISTERED))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop everything."""
        self.stop()

    def stop(self) -> None:
        """End every process of the cluster, also executors and their Python workers; may be called again."""
        atexit.unregister(self.stop)
        for part in self._parts.values():
            with suppress(ProcessLookupError):
                os.killpg(part.process.pid, signal.SIGTERM)
        end_all(self._mark)
        for part in self._parts.values():
            part.process.wait()
        self._parts.clear()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)
            self.folder = self._own_folder = None

    def executors(self) -> list[Process]:
        """The executors of all applications."""
        return marked(self._mark, EXECUTOR)

    def processes(self, part: str = "") -> list[Process]:
        """All processes of the cluster; only those with `part` in their command line."""
        return marked(self._mark, part)

    def kill_worker(self, number: int) -> None:
        """Kill a worker with all its processes, as when a machine is lost."""
        part = self._parts[_name(number)]
        processes = self.processes()
        under = {part.process.pid}
        for _ in range(3):  # executors, their daemons, and the daemons' Python workers
            under |= {each.pid for each in processes if each.parent in under}
        for pid in under:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        part.process.wait()

    def restart_worker(self, number: int) -> None:
        """Start a worker again after it was killed, and wait until it is registered."""
        self._start_worker(number)
        self._await(self._parts[_name(number)], re.compile(_REGISTERED))

    def _start_worker(self, number: int) -> None:
        assert self.folder is not None
        work = self.folder / f"{_name(number)}-files"
        places = ["--host", HOST, "--port", "0", "--webui-port", "0", "--work-dir", str(work)]
        self._start(_name(number), [_WORKER, *places, "--cores", str(self.cores), "--memory", self.memory, self.url])

    def _start(self, name: str, arguments: list[str]) -> _Part:
        assert self.folder is not None
        home = spark_home()
        environment = {
            **os.environ,
            MARK: self._mark,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            # Little JIT compilation, as processes are short-lived; and no limit on how often executors may be killed.
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.deploy.maxExecutorRetries=-1",
            "PYSPARK_PYTHON": sys.executable,
        }
        log = self.folder / f"{name}.log"
        with log.open("ab") as file:
            start = file.tell()
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        part = self._parts[name] = _Part(process, log, start)
        return part

    @staticmethod
    def _await(part: _Part, sign: re.Pattern[str]) -> re.Match[str]:
        """Wait until the log has a match."""
        until = time.monotonic() + PATIENCE_S
        while True:
            log_text = part.log_text()
            if found := sign.search(log_text):
                return found
            if part.process.poll() is not None or time.monotonic() > until:
                end = "\n".join(log_text.splitlines()[-20:])
                raise ClusterError(f"{part.log.stem} did not come up; its log ends with\n{end}")
            time.sleep(POLL_S)


def _name(number: int) -> str:
    return f"worker-{number}"
