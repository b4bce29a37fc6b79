"""The crash law on real Spark: kill any process at any moment, start again, and the answer is the same.

    python -m tests.support.crash --kills 50 --seed 1
    python -m tests.support.crash --minutes 30 --stores local,s3 --at-once 2
    python -m tests.support.crash --source kafka --modes local --kills 50

A job (`crash_job`) runs undisturbed first, which gives the answer, checked by `trimtab.evaluate`. Then it runs again
and again while its processes are killed with SIGKILL: the driver, whole or only its Python or its JVM; Python workers
and the daemon that forks them; the process that compiles; on a standalone cluster also executors, and a worker with all
that runs on it. The checkpoint is on a local disk or in an S3-compatible server, and each start may have other queries,
engines, delays and splits than the one before. After every kill the checkpoint is verified, and after every job the
answer is compared: nothing lost, nothing twice. With `--source kafka` jobs read topics and write topics. Their broker
is killed, too, which must not end a job.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.state.s3_server import s3_server
from tests.support.broker import running_broker
from tests.support.crash_answers import Answer, answer, differences, expected, make_input, strange_extras
from tests.support.crash_job import DELAY_S, EXTRAS, KEY_GROUPS, STREAMS
from tests.support.crash_start import HERE, Attempt, Place, start_job
from tests.support.crash_topics import Topics
from tests.support.eager import carried_out, logs
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.inspect import verify
from trimtab.state.manifest import batches
from trimtab_lab.live.cluster import Cluster
from trimtab_lab.live.processes import Process, await_end, end_all, marked

PATIENCE_S = 600.0
KILLS_A_JOB = 12
BUSY_WITHIN_S = 3.0
RETRIED = "a worker was lost"
DRIVER_KINDS = ("driver", "driver's python", "driver's jvm")
LOCAL_KINDS = (*DRIVER_KINDS, *("python worker",) * 4, "python daemon", "compiler")
CLUSTER_KINDS = (*DRIVER_KINDS, *("executor",) * 4, "machine", "python worker")
BROKER = "broker"
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

    def add(self, other: Tally) -> None:
        """Count what another run did, too."""
        self.kills += other.kills
        self.jobs += other.jobs
        self.starts += other.starts
        self.retries += other.retries
        self.orphans += other.orphans
        self.verified += other.verified
        self.decided += other.decided
        self.problems += other.problems

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
class CrashLaw:
    """Kills jobs in a folder, and tallies the kills."""

    folder: Path
    dice: random.Random
    right: Answer
    report: Callable[[str], None]
    topics: Topics | None = None  # what jobs read and write; None: files
    tally: Tally = field(default_factory=Tally)

    def run_job(self, plan: Plan, place: Place = HERE) -> None:
        """One job from its start to its end, killed on the way as planned; a kill that was done leaves the plan."""
        self.tally.jobs += 1
        home = self.folder / f"job-{self.tally.jobs}"
        home.mkdir()
        location, cluster = place.checkpoint(home), place.cluster
        changes = ["--engines", "3"]
        always = [*place.arguments, *([] if self.topics is None else self.topics.begin(home.name))]
        attempts: list[Attempt] = []
        try:
            while True:
                attempt = start_job(home, self.folder / "input", location, [*always, *changes, *self._reading()])
                self.tally.starts += 1
                attempts.append(attempt)
                while plan and not attempt.deliberate and self._await_moment(attempt, location):
                    kind = plan.popleft()
                    if not self._kill(attempt, kind, cluster, home, location):
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
                changes = self._changes()
        except subprocess.TimeoutExpired:
            self._wrong(f"{home.name}: a start did not end within {PATIENCE_S:.0f} s: see {attempt.log}")
            return
        finally:
            for each in attempts:
                if not await_end(each.mark, 3.0):
                    self.tally.orphans += len(end_all(each.mark))
                each.process.wait()
        self._judge(home, location)

    def _judge(self, home: Path, location: str) -> None:
        """Check the checkpoint and the output of a job that has ended."""
        self._verify(home, location)
        if (home / "checkpoint").exists():
            for entries in logs(home / "checkpoint"):
                self.tally.decided += carried_out(entries)
        if self.topics is None:
            found = differences(self.right, answer(home / "output"))
        else:
            found = differences(self.right, self.topics.answer(home.name, home / "output"))
            found += self.topics.doubled(home.name)
        for difference in found + strange_extras(self.folder / "input", home / "output"):
            self._wrong(f"{home.name}: {difference}")

    def _changes(self) -> list[str]:
        """How the next start differs from the one before."""
        dice = self.dice
        chosen = [f"--engines={number}" for number in (2, 3) if dice.random() < 0.25]
        chosen += [f"--extra={name}" for name in EXTRAS if dice.random() < 0.5]
        chosen += [f"--delay={DELAY_S + 1}"] if dice.random() < 0.3 else []
        chosen += ["--changed"] if dice.random() < 0.5 else []
        return chosen + (["--split"] if dice.random() < 0.5 else [])

    def _reading(self) -> list[str]:
        """Who reads topics: half of the starts leave it to tasks, which the driver otherwise does for so few rows."""
        return ["--by-tasks"] if self.topics is not None and self.dice.random() < 0.5 else []

    def _await_moment(self, attempt: Attempt, location: str) -> bool:
        """Wait for a random moment, most often in the middle of a batch; False if the job ended before."""
        if self.dice.random() < 0.1:  # while it starts
            return self._still_runs(attempt, self.dice.uniform(0.0, 5.0))
        awaited = newest_batch(location) + self.dice.choice((0, 1, 1, 2, 3))
        while newest_batch(location) < awaited:
            if not self._still_runs(attempt, 0.01 if os.path.isabs(location) else 0.2):
                return False
        return self._still_runs(attempt, self.dice.uniform(0.0, 0.7))

    @staticmethod
    def _still_runs(attempt: Attempt, wait_s: float) -> bool:
        try:
            attempt.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _kill(self, attempt: Attempt, kind: str, cluster: Cluster | None, home: Path, location: str) -> bool:
        """Kill a process of this kind; False if there is none."""
        batch = newest_batch(location)
        machine = self.dice.randrange(cluster.workers) if cluster is not None else 0
        if kind == "machine" and cluster is not None:
            cluster.kill_worker(machine)
        elif kind == BROKER and self.topics is not None:
            self.topics.broker.kill()
            self.topics.broker.start()
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
        self._verify(home, location)
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

    def _verify(self, home: Path, location: str) -> None:
        """Check that every version that is kept is intact, as it has to be at any moment."""
        if Checkpoint.look(location, KEY_GROUPS) is None:
            return
        self.tally.verified += 1
        for problem in verify(Checkpoint.existing(location)).problems:
            self._wrong(f"{home.name}: {problem}")

    def _wrong(self, problem: str) -> None:
        self.tally.problems.append(problem)
        self.report(problem)


def newest_batch(location: str) -> int:
    """The newest committed batch of a job's first stream; -1 before the first."""
    if Checkpoint.look(location, KEY_GROUPS) is None:
        return -1
    manifests = Checkpoint.existing(location).stream(STREAMS[0]).manifests
    return batches(manifests)[-1] if manifests.exists() and batches(manifests) else -1


def undisturbed(folder: Path, topics: Topics | None) -> Answer:
    """The answer of a run without kills, which has to be what `trimtab.evaluate` gives."""
    home = folder / "undisturbed"
    home.mkdir()
    arguments = ["--engines", "3", "--still", *([] if topics is None else topics.begin(home.name))]
    attempt = start_job(home, folder / "input", str(home / "checkpoint"), arguments)
    try:
        if attempt.process.wait(PATIENCE_S) != 0:
            raise RuntimeError(f"the undisturbed run failed:\n{attempt.log.read_text(errors='replace')}")
    finally:
        end_all(attempt.mark)
        attempt.process.wait()
    found = answer(home / "output") if topics is None else topics.answer(home.name, home / "output")
    if wrong := differences(expected(folder / "input"), found):
        raise RuntimeError("\n".join(["the undisturbed run differs from trimtab.evaluate:", *wrong]))
    return found


@contextmanager
def places(modes: Sequence[str], stores: Sequence[str], folder: Path) -> Iterator[list[Place]]:
    """Every mode with every store."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(folder=folder / "cluster")) if "cluster" in modes else None
        port = stack.enter_context(s3_server()) if "s3" in stores else None
        yield [
            Place(cluster if mode == "cluster" else None, port if store == "s3" else None)
            for store in stores
            for mode in modes
        ]


def crash(
    folder: Path,
    *,
    seed: int,
    kills: int | None = None,
    kills_a_job: int = KILLS_A_JOB,
    minutes: float | None = None,
    modes: Sequence[str] = ("local", "cluster"),
    stores: Sequence[str] = ("local",),
    source: str = "files",
    files: int = 24,
    rows: int = 200,
    report: Callable[[str], None] = lambda _: None,
) -> Tally:
    """Kill jobs until there were that many kills, or for that long; the folder keeps everything that was written."""
    until_s = None if minutes is None else time.monotonic() + 60 * minutes
    with ExitStack() as stack:
        topics = None
        # Which rows are too late depends on the batches, and how topics are cut into batches on what is killed.
        make_input(folder / "input", seed, files, rows, late_from=8 if source == "files" else files)
        if source == "kafka":
            topics = Topics(stack.enter_context(running_broker()), folder / "input")
            topics.fill()
        law = CrashLaw(folder, random.Random(seed), undisturbed(folder, topics), report, topics)
        report(f"undisturbed: {', '.join(f'{rows.total():,} rows of {name}' for name, rows in law.right.items())}")
        for place in itertools.cycle(stack.enter_context(places(modes, stores, folder))):
            left = kills_a_job if kills is None else min(kills_a_job, kills - law.tally.kills.total())
            if law.tally.problems or left <= 0 or (until_s is not None and time.monotonic() > until_s):
                break
            kinds: tuple[str, ...] = LOCAL_KINDS if place.cluster is None else CLUSTER_KINDS
            kinds = kinds if topics is None else (*kinds, BROKER)
            law.run_job(Plan(law.dice.choice(kinds) for _ in range(left)), place)
            report(str(law.tally))
        return law.tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the law; exit code 1 if an answer changed, and then the folder is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.crash", description=main.__doc__)
    parser.add_argument("--kills", type=int, help="50, unless there are minutes")
    parser.add_argument("--minutes", type=float, help="go on for this long, however many kills that are")
    parser.add_argument("--kills-a-job", type=int, default=KILLS_A_JOB, help="at most; then the job may end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", default="local,cluster", help="local, cluster or both, with a comma between")
    parser.add_argument("--stores", default="local", help="local, s3 or both")
    parser.add_argument("--source", default="files", choices=("files", "kafka"), help="kafka: its sink, too")
    parser.add_argument("--at-once", type=int, default=1, help="runs side by side, each with a seed of its own")
    parser.add_argument("--files", type=int, default=24, help="of each stream, each of them a batch")
    parser.add_argument("--rows", type=int, default=200, help="of each file")
    parser.add_argument("--keep", action="store_true", help="keep the folder in any case")
    options = parser.parse_args(arguments)
    os.environ["TRIMTAB_VALIDATE"] = "1"  # the drivers of all jobs check themselves, as in the suite
    folder = Path(tempfile.mkdtemp(prefix="trimtab-crash-"))
    began_s = time.monotonic()

    def report(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {line}\n")
        sys.stdout.flush()

    def run(number: int) -> Tally:
        own = folder / str(number)
        own.mkdir()
        return crash(
            own,
            kills=50 if options.kills is None and options.minutes is None else options.kills,
            kills_a_job=options.kills_a_job,
            minutes=options.minutes,
            seed=options.seed + number,
            modes=options.modes.split(","),
            stores=options.stores.split(","),
            source=options.source,
            files=options.files,
            rows=options.rows,
            report=report if options.at_once == 1 else lambda line: report(f"run {number}: {line}"),
        )

    tally = Tally()
    with ThreadPoolExecutor(options.at_once) as pool:
        for each in pool.map(run, range(options.at_once)):
            tally.add(each)
    report(f"crash law, seed {options.seed}: {tally}")
    if tally.problems or options.keep:
        report(f"everything is in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
