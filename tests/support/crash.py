"""The crash law on real Spark: kill any process at any moment, start again, and the answer is the same.

    python -m tests.support.crash --kills 50 --seed 1

A job (`crash_job`) runs undisturbed first, which gives the answer, checked by `trimtab.evaluate`. Then it runs again
and again while its processes are killed with SIGKILL: the driver, whole or only its Python or its JVM; Python workers
and the daemon that forks them; on a standalone cluster also executors, and a worker with all that runs on it. After
every kill the checkpoint is verified, and after every job the answer is compared: nothing lost, nothing twice.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.crash_answers import Answer, answer, differences, expected, make_input
from tests.support.eager import carried_out, logs
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.inspect import verify
from trimtab_lab.live.cluster import Cluster
from trimtab_lab.live.processes import MARK, Process, await_end, end_all, marked, new_mark

PATIENCE_S = 600.0
BUSY_WITHIN_S = 3.0
RETRIED = "a worker was lost"
DRIVER_KINDS = ("driver", "driver's python", "driver's jvm")
LOCAL_KINDS = (*DRIVER_KINDS, *("python worker",) * 4, "python daemon")
CLUSTER_KINDS = (*DRIVER_KINDS, *("executor",) * 4, "machine", "python worker")
Plan = collections.deque[str]
"""Kinds of kills that are still to be done."""


@dataclass(slots=True)
class Tally:
    """What was done, and what went wrong."""

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    jobs: int = 0
    starts: int = 0
    retries: int = 0  # batches that ran again inside a job, because a worker was lost
    orphans: int = 0  # processes of killed drivers that had to be ended
    verified: int = 0
    decided: collections.Counter[str] = field(default_factory=collections.Counter)  # by coordinators, and done
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """One line."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kills.items()))
        wrong = f"{len(self.problems)} DIFFERENCES" if self.problems else "every answer the same"
        return (
            f"{self.kills.total()} kills ({kinds}), {self.jobs} jobs, {self.starts} starts, {self.retries} batches "
            f"retried, {self.verified} checkpoints verified, {self.orphans} orphans ended, "
            f"coordinators: {dict(self.decided)}: {wrong}"
        )


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
        if kind == "executor":
            return [] if cluster is None else cluster.executors()
        forked = [
            each for each in [*own, *(cluster.processes() if cluster else [])] if "pyspark.daemon" in each.command
        ]
        pids = {each.pid for each in forked}
        return [each for each in forked if (each.parent in pids) == (kind == "python worker")]


@dataclass(slots=True)
class CrashLaw:
    """Kills jobs in a folder, and tallies the kills."""

    folder: Path
    dice: random.Random
    right: Answer
    report: Callable[[str], None]
    tally: Tally = field(default_factory=Tally)

    def run_job(self, plan: Plan, cluster: Cluster | None = None) -> None:
        """One job from its start to its end, killed on the way as planned; a kill that was done leaves the plan."""
        self.tally.jobs += 1
        home = self.folder / f"job-{self.tally.jobs}"
        home.mkdir()
        engines: int | None = 3
        attempts: list[Attempt] = []
        try:
            while True:
                attempt = start_job(home, self.folder / "input", cluster, engines)
                self.tally.starts += 1
                attempts.append(attempt)
                while plan and not attempt.deliberate and self._await_moment(attempt, home):
                    kind = plan.popleft()
                    if not self._kill(attempt, kind, cluster, home):
                        plan.append(kind)  # no such process right now: try later
                code = attempt.process.wait(PATIENCE_S)
                log = attempt.log.read_text(errors="replace")
                self.tally.retries += log.count(RETRIED)
                if code == 0:
                    break
                if not attempt.deliberate:
                    end = "\n".join(log.splitlines()[-60:])
                    self._wrong(f"{home.name}: a start ended with {code}, though its driver was not killed:\n{end}")
                    return
                engines = self.dice.choice((None, None, 2, 3))
        except subprocess.TimeoutExpired:
            self._wrong(f"{home.name}: a start did not end within {PATIENCE_S:.0f} s: see {attempt.log}")
            return
        finally:
            for each in attempts:
                if not await_end(each.mark, 3.0):
                    self.tally.orphans += len(end_all(each.mark))
                each.process.wait()
        self._judge(home)

    def _judge(self, home: Path) -> None:
        """Check the checkpoint and the output of a job that has ended."""
        self._verify(home)
        for entries in logs(home / "checkpoint"):
            self.tally.decided += carried_out(entries)
        for difference in differences(self.right, answer(home / "output")):
            self._wrong(f"{home.name}: {difference}")

    def _await_moment(self, attempt: Attempt, home: Path) -> bool:
        """Wait for a random moment, most often in the middle of a batch; False if the job ended before."""
        if self.dice.random() < 0.1:  # while it starts
            return self._still_runs(attempt, self.dice.uniform(0.0, 5.0))
        awaited = newest_batch(home) + self.dice.choice((0, 1, 1, 2, 3))
        while newest_batch(home) < awaited:
            if not self._still_runs(attempt, 0.01):
                return False
        return self._still_runs(attempt, self.dice.uniform(0.0, 0.7))

    @staticmethod
    def _still_runs(attempt: Attempt, wait_s: float) -> bool:
        try:
            attempt.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _kill(self, attempt: Attempt, kind: str, cluster: Cluster | None, home: Path) -> bool:
        """Kill a process of this kind; False if there is none."""
        batch = newest_batch(home)
        machine = self.dice.randrange(cluster.workers) if cluster is not None else 0
        if kind == "machine" and cluster is not None:
            cluster.kill_worker(machine)
        elif kind == "driver":
            # Daemons aren't killed: they have to notice it themselves, as when the out-of-memory killer did it.
            victims = [each for each in marked(attempt.mark) if "pyspark.daemon" not in each.command]
            killed = [each.kill() for each in victims]
            if not any(killed):
                return False
            attempt.deliberate = True
        else:
            there = self._candidates(attempt, kind, cluster)
            if not there or not self.dice.choice(there).kill():
                return False
            attempt.deliberate = kind in DRIVER_KINDS
        self.tally.kills[kind] += 1
        self._verify(home)
        self.report(f"kill {self.tally.kills.total()}: {kind}, {home.name} after batch {batch}")
        if kind == "machine" and cluster is not None:
            time.sleep(self.dice.uniform(0.0, 2.0))
            cluster.restart_worker(machine)
        return True

    @staticmethod
    def _candidates(attempt: Attempt, kind: str, cluster: Cluster | None) -> list[Process]:
        there = attempt.of_kind(kind, cluster)
        if kind != "python worker":
            return there
        until_s = time.monotonic() + BUSY_WITHIN_S  # a busy one: killing an idle one has hardly any effect
        while not any(each.is_busy for each in there) and time.monotonic() < until_s:
            there = attempt.of_kind(kind, cluster)
        return [each for each in there if each.is_busy]

    def _verify(self, home: Path) -> None:
        """Check that every version that is kept is intact, as it has to be at any moment."""
        if not (home / "checkpoint" / "job.json").exists():
            return
        self.tally.verified += 1
        for problem in verify(Checkpoint.existing(str(home / "checkpoint"))).problems:
            self._wrong(f"{home.name}: {problem}")

    def _wrong(self, problem: str) -> None:
        self.tally.problems.append(problem)
        self.report(problem)


def newest_batch(home: Path) -> int:
    """The newest committed batch of a job; -1 before the first."""
    folder = home / "checkpoint" / "streams" / "ticks" / "manifests"
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".json") and name[0].isdigit()]
    except FileNotFoundError:
        return -1
    return max((int(name.removesuffix(".json")) for name in names), default=-1)


def start_job(
    home: Path, folder: Path, cluster: Cluster | None, engines: int | None, *, still: bool = False
) -> Attempt:
    """Start the job in a session of its own."""
    mark = new_mark()
    command = [sys.executable, "-m", "tests.support.crash_job", str(home / "checkpoint"), str(folder)]
    command.append(str(home / "output"))
    if cluster is not None:
        settings = {**cluster.settings, "spark.cores.max": str(cluster.workers * cluster.cores)}
        command += ["--master", cluster.url, *(f"--conf={name}={value}" for name, value in settings.items())]
    command += ["--engines", str(engines)] if engines is not None else []
    command += ["--still"] if still else []
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


def undisturbed(folder: Path) -> Answer:
    """The answer of a run without kills, which has to be what `trimtab.evaluate` gives."""
    home = folder / "undisturbed"
    home.mkdir()
    attempt = start_job(home, folder / "input", None, 3, still=True)
    try:
        if attempt.process.wait(PATIENCE_S) != 0:
            raise RuntimeError(f"the undisturbed run failed:\n{attempt.log.read_text(errors='replace')}")
    finally:
        end_all(attempt.mark)
        attempt.process.wait()
    found = answer(home / "output")
    if wrong := differences(expected(folder / "input"), found):
        raise RuntimeError("\n".join(["the undisturbed run differs from trimtab.evaluate:", *wrong]))
    return found


def crash(
    folder: Path,
    *,
    kills: int,
    seed: int,
    modes: Sequence[str] = ("local", "cluster"),
    files: int = 24,
    rows: int = 200,
    report: Callable[[str], None] = lambda _: None,
) -> Tally:
    """Kill jobs until there were `kills` kills, evenly over the modes; the folder keeps everything that was written."""
    make_input(folder / "input", seed, files, rows)
    law = CrashLaw(folder, random.Random(seed), undisturbed(folder), report)
    report(f"undisturbed: {', '.join(f'{rows.total():,} rows of {name}' for name, rows in law.right.items())}")
    for number, mode in enumerate(modes, 1):
        kinds = CLUSTER_KINDS if mode == "cluster" else LOCAL_KINDS
        plan = Plan(law.dice.choice(kinds) for _ in range(kills * number // len(modes) - law.tally.kills.total()))
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(folder=folder / "cluster")) if mode == "cluster" else None
            while plan and not law.tally.problems:
                law.run_job(plan, cluster)
                report(str(law.tally))
    return law.tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the law; exit code 1 if an answer changed, and then the folder is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.crash", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", default="local,cluster", help="local, cluster or both, with a comma between")
    parser.add_argument("--files", type=int, default=24, help="of the input, each of them a batch")
    parser.add_argument("--rows", type=int, default=200, help="of each file")
    parser.add_argument("--keep", action="store_true", help="keep the folder in any case")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="trimtab-crash-"))
    began_s = time.monotonic()

    def report(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {line}\n")
        sys.stdout.flush()

    tally = crash(
        folder,
        kills=options.kills,
        seed=options.seed,
        modes=options.modes.split(","),
        files=options.files,
        rows=options.rows,
        report=report,
    )
    report(f"crash law, seed {options.seed}: {tally}")
    if tally.problems or options.keep:
        report(f"everything is in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
