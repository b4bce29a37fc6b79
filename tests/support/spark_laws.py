"""The three laws on real Spark: random jobs, moved, resized, stopped, failed and started again, and `evaluate` agrees.

Moves and resizes come from an eager coordinator, or from one that decides at random, and also from the test itself.

    python -m tests.support.spark_laws --seeds 0 50

runs the job of each seed and prints those whose rows differ. A job takes seconds.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.choices import Choices, SeededChoices, between, chance, one_of
from tests.support.eager import carried_out, decided_by_dice, decisions_awaited, eager_balance, logs, nervous_scale
from tests.support.laws import bag
from tests.support.stream_cases import EVENT_TIME, StreamCase, a_stream, depends_on_ties
from trimtab.api.evaluate import evaluate
from trimtab.api.job import Job
from trimtab.api.run import Run
from trimtab.deciding.policy import Balance, Measure, Scale
from trimtab.deciding.replay import agrees, replay
from trimtab.driver import machine
from trimtab.engine.columns.watermark import BatchTime, TimeRule
from trimtab.errors import JobError, MatchError, ThreadLimitError
from trimtab.spark.session import start_session
from trimtab.spark.spark_functions import compile_for
from trimtab.spark.tier_one import TierOne
from trimtab.worker.intake import ORIGINAL, ROUTE, intake_of

KEY_GROUPS = 8
MOST_ENGINES = 3
PATIENCE_S = 600.0
BY_DICE = Balance(max_rstd=None)
"""Of jobs whose coordinator decides at random."""
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
"""For a session that runs many small jobs."""
_ZONE = "spark.sql.session.timeZone"


class SinkError(Exception):
    """Raised by sinks of the laws now and then, after they have written their rows: the batch is repeated."""


class FileStream:
    """A folder of parquet files that arrive one by one; by default each is a batch of its own."""

    def __init__(self, folder: pathlib.Path, spark: Any, schema: pa.Schema) -> None:
        folder.mkdir(parents=True)
        self.folder, self._spark, self.files = folder, spark, 0
        self._columns = ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in schema)

    def add(self, table: pa.Table) -> None:
        """One more file, newer than those before."""
        path = self.folder / f"{self.files:06d}.parquet"
        unfinished = self.folder / f"_{path.name}"  # Spark ignores names that start with _
        pq.write_table(stored(table), unfinished)
        os.utime(unfinished, (1_700_000_000 + self.files,) * 2)
        unfinished.rename(path)
        self.files += 1

    def frame(self, files_per_batch: int = 1) -> Any:
        """The streaming DataFrame."""
        reader = self._spark.readStream.schema(self._columns).option("maxFilesPerTrigger", files_per_batch)
        return reader.parquet(str(self.folder))


def stored(table: pa.Table) -> pa.Table:
    """The table with times in UTC, which Spark reads as TIMESTAMP."""
    zoned = pa.timestamp("us", "UTC")
    fields = [f.with_type(zoned) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_map(kind):
        return f"map<{_spark_type(kind.key_type)}, {_spark_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    return {pa.int64(): "bigint", pa.float64(): "double", pa.string(): "string", pa.bool_(): "boolean"}[kind]


@contextlib.contextmanager
def in_zone(spark: Any, zone: str) -> Iterator[None]:
    """Give the session another time zone for a while: queries compute in UTC all the same."""
    before = spark.conf.get(_ZONE)
    spark.conf.set(_ZONE, zone)
    try:
        yield
    finally:
        spark.conf.set(_ZONE, before)


class Life:
    """A random job's life: its streams, its queries, and what they have given so far, by batch."""

    def __init__(self, choices: Choices, spark: Any, folder: pathlib.Path) -> None:
        self._choices, self._spark, self._folder = choices, spark, folder
        self.cases = {"t": a_stream(choices, late=False)}
        if chance(choices, 30):
            self.cases["u"] = a_stream(choices, late=False)
        self.queries = {
            f"{stream}{number}": sql
            if stream == "t"
            else sql.replace("FROM t", "FROM u").replace("TABLE(t)", "TABLE(u)")
            for stream, case in self.cases.items()
            for number, sql in enumerate(case.queries)
        }
        self._streams = {name: FileStream(folder / name, spark, case.table.schema) for name, case in self.cases.items()}
        self._given: dict[str, dict[int, pa.Table]] = {name: {} for name in self.queries}
        self.batches = self.moves = self.starts = self.failures = self.cuts = 0

    def expected(self) -> dict[str, list[str]]:
        """What `evaluate` gives; where rows of a key tie in time, it gets them in Spark's order."""
        found = {}
        for name, case in self.cases.items():
            own = {query: sql for query, sql in self.queries.items() if query.startswith(name)}
            ordered = self._as_spark_orders(name, case, own)
            for query, sql in own.items():
                table = ordered.get(query, case.table)
                answer = evaluate(sql, {name: table}, event_time=EVENT_TIME, delay=f"{case.delay_s} seconds")
                found[query] = bag(answer)
        return found

    def given(self, query: str) -> list[str]:
        """The rows that the job wrote for a query."""
        tables = list(self._given[query].values())
        return bag(naive(pa.concat_tables(tables))) if tables else []

    def run(self) -> None:
        """Add files, start, disturb and stop the job, and close the input at the end."""
        pieces = {name: _pieces(case, self._choices) for name, case in self.cases.items()}
        while any(pieces.values()):
            for name, waiting in pieces.items():
                for _ in range(min(len(waiting), between(self._choices, 1, 3))):
                    self._streams[name].add(waiting.pop(0))
            last = not any(pieces.values())
            if last or chance(self._choices, 30):  # several batches in each run: the first one of a run moves nothing
                while not self._start(close=last) and last:
                    pass  # after a failure the job is started again

    @property
    def carried_out(self) -> collections.Counter[str]:
        """What coordinators decided and was carried out: key groups moved, engines added and dropped."""
        found: collections.Counter[str] = collections.Counter()
        for entries in logs(self._folder / "checkpoint"):
            found += carried_out(entries)
        return found

    def disagreements(self) -> list[str]:
        """The logged batches on which a replay decides otherwise; random decisions can't be replayed."""
        return [
            f"batch {one.entry.observed.batch}: {one.entry.decision.reason}, and in the replay {one.decision.reason}"
            for entries in logs(self._folder / "checkpoint")
            for one in replay([entry for entry in entries if not self._is_by_dice(entry.balance)])
            if not agrees(one)
        ]

    @staticmethod
    def _is_by_dice(balance: Balance | None) -> bool:
        return balance == BY_DICE

    def _start(self, *, close: bool) -> bool:
        """Run a job once; False if it failed on the way."""
        choices = self._choices
        with ExitStack() as stack:
            if chance(choices, 80):
                stack.enter_context(decisions_awaited())
            scale = nervous_scale(choices, MOST_ENGINES) if chance(choices, 50) else None
            balance = eager_balance(choices, measures=(Measure.BUSY,) if scale else tuple(Measure))
            if chance(choices, 40):
                stack.enter_context(decided_by_dice(choices.below(1 << 30), MOST_ENGINES))
                balance, scale = BY_DICE, None
            engines = between(choices, 1, MOST_ENGINES) if self.starts == 0 or chance(choices, 30) else None
            zone = one_of(choices, "UTC", "Asia/Tokyo", "America/St_Johns")
            stack.enter_context(in_zone(self._spark, zone))
            try:
                self._run_once(balance, scale, engines, close=close)
            except JobError as error:
                if not isinstance(error.__cause__, SinkError):
                    raise
                self.failures += 1
                return False
            finally:
                self.starts += 1
                if chance(choices, 30):
                    self._cut_power()
        return True

    def _cut_power(self) -> None:
        """Cut off what a power cut may cut off in Spark's logs: commits, and the offsets of a batch without a plan."""
        for name in self._streams:
            home, log = (self._folder / "checkpoint" / kind / name for kind in ("streams", "spark"))
            files = [*home.glob("manifests/*.json"), *home.glob("plans/*.json")]
            # A reservation, which a job makes before its first batch, has no batch of Spark's.
            known = [json.loads(file.read_bytes())["body"].get("spark_batch") for file in files]
            last = max((batch for batch in known if batch is not None), default=-1)
            lost = [file for file in log.glob("offsets/[0-9]*") if int(file.name) > last]
            for file in (*log.glob("commits/[0-9]*"), *lost):
                content = file.read_bytes()
                file.write_bytes(content[: self._choices.below(len(content))])
                self.cuts += 1

    def _run_once(self, balance: Balance, scale: Scale | None, engines: int | None, *, close: bool) -> None:
        choices = self._choices
        job = Job(
            self._spark,
            checkpoint=str(self._folder / "checkpoint"),
            engines=engines,
            key_groups=KEY_GROUPS,
            warm=False,
            balance=balance,
            scale=scale,
        )
        for name, stream in self._streams.items():
            job.stream(name, stream.frame(), event_time=EVENT_TIME, delay=f"{self.cases[name].delay_s} seconds")
        box: list[Run] = []
        for query, sql in self.queries.items():
            job.query(query, sql).write(self._sink(query, box))
        run = job.start(available_now=True, close=close)
        box.append(run)
        try:
            self._disturb(run, choices)
            if not close and chance(choices, 25):
                run.stop()  # somewhere in the middle
            elif not run.await_termination(PATIENCE_S):
                run.stop()
                raise TimeoutError(f"a job of a few rows takes more than {PATIENCE_S:.0f} s")
        finally:
            self.batches += len(run.history)
            self.moves += sum(batch.moved for batch in run.history)

    def _sink(self, query: str, box: list[Run]) -> Any:
        choices = SeededChoices(self._choices.below(1 << 30))  # its own choices, because batches run in another thread

        def keep(frame: Any, batch: int) -> None:
            self._given[query][batch] = frame.toArrow()
            if box:
                self._disturb(box[0], choices)
            if chance(choices, 10):
                raise SinkError

        return keep

    def _disturb(self, run: Run, choices: Choices) -> None:
        """Move and resize now and then; it takes effect with the next batch, before what the coordinator decided."""
        if chance(choices, 10):
            run.resize(between(choices, 1, MOST_ENGINES))
        if chance(choices, 20):
            with contextlib.suppress(JobError):  # there may be fewer engines by now, and then it is refused
                run.move({choices.below(KEY_GROUPS): choices.below(MOST_ENGINES) for _ in range(3)})

    def _as_spark_orders(self, stream: str, case: StreamCase, own: Mapping[str, str]) -> dict[str, pa.Table]:
        """For queries that depend on it, the rows in the order of the hash that breaks ties on Spark."""
        frame = self._spark.createDataFrame(stored(case.table))
        schema = stored(case.table).schema
        compiled = {query: compile_for(self._spark, sql, {stream: schema}, EVENT_TIME) for query, sql in own.items()}
        plan = intake_of(compiled, schema, EVENT_TIME)
        sensitive = [r for r in plan.readings if depends_on_ties(own[r.query])]
        if not sensitive:
            return {}
        tier_one = TierOne(plan, frame, KEY_GROUPS, keep_original=True)
        rows = tier_one.rows(frame, BatchTime(TimeRule(0)))
        if len(plan.routes) > 1:
            rows = rows.where(f"{ROUTE} = 0")
        for reading in sensitive:
            read = rows.select(reading.arrival, *sorted({name for _, name in reading.columns})).toArrow().to_pylist()
            hashes = {_one_zero(row): row[reading.arrival] for row in read}
            assert len(set(hashes.values())) == len(hashes), "rows that differ have the same place among ties"
        arrived = rows.select(*{reading.arrival for reading in sensitive}, f"{ORIGINAL}.*").toArrow()
        columns = case.table.column_names
        return {r.query: naive(arrived.sort_by(r.arrival).select(columns)).cast(case.table.schema) for r in sensitive}


def _one_zero(row: Mapping[str, Any]) -> str:
    """The values of a row but for its hash, the first column; -0.0 and 0.0 are one value."""
    values = list(row.values())[1:]
    return repr([value + 0.0 if isinstance(value, float) else value for value in values])


def _pieces(case: StreamCase, choices: Choices) -> list[pa.Table]:
    """A stream's files: as its case has them, with some more cuts, because only later batches follow a decision."""
    more = [row for row in range(1, case.table.num_rows) if chance(choices, 40)]
    edges = [0, *sorted([*case.cuts, *more]), case.table.num_rows]
    return [case.table.slice(start, end - start) for start, end in itertools.pairwise(edges)]


def naive(table: pa.Table) -> pa.Table:
    """The table with times as `evaluate` gives them for times without a zone."""
    return table.cast(pa.schema([field.with_type(_naive_type(field.type)) for field in table.schema]))


def _naive_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_naive_type(kind.value_type))
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


def differs(choices: Choices, spark: Any, done: collections.Counter[str] | None = None) -> str:
    """The query of a random job that gives other rows; empty: none; "error": it has to fail, and does.

    What coordinators did on the way is added to `done`.
    """
    with tempfile.TemporaryDirectory() as folder:
        life = Life(choices, spark, pathlib.Path(folder))
        try:
            expected = life.expected()
        except (MatchError, ThreadLimitError):
            return "error"
        life.run()
        if done is not None:
            done.update(life.carried_out)
            done["failures"] += life.failures
            done["cuts"] += life.cuts
        if wrong := life.disagreements():
            return f"the log doesn't replay: {wrong[0]}"
        wrong = [query for query in life.queries if life.given(query) != expected[query]]
        return f"{wrong[0]} differs: {life.queries[wrong[0]]}" if wrong else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the laws on the jobs of a range of seeds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 20), metavar=("FROM", "TO"))
    low, high = options.parse_args(arguments).seeds
    os.environ["TRIMTAB_VALIDATE"] = "1"  # for processes that are started
    machine.VALIDATES = True  # drivers check themselves after every step, as in the suite
    spark = start_session("trimtab laws", "local[2]", SETTINGS)
    counts: collections.Counter[str] = collections.Counter()
    done: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    try:
        for seed in range(low, high):
            try:
                found = differs(SeededChoices(seed), spark, done)
            except Exception as error:
                found = f"raised {type(error).__name__}: {error}"
            kind = {"": "agree", "error": "error"}.get(found, "differ")
            counts[kind] += 1
            if kind == "differ":
                print(f"seed {seed}: {found}", flush=True)  # noqa: T201 - a command
    finally:
        spark.stop()
    print(f"{high - low} jobs in {time.monotonic() - began:.0f} s: {dict(counts)}, {dict(done)}")  # noqa: T201
    return int(counts["differ"] > 0)


if __name__ == "__main__":
    sys.exit(main())
