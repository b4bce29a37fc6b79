"""What the crash law compares: a seeded input, the right answer to it, and what a job has written."""

from __future__ import annotations

import collections
import datetime
import json
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq

from tests.support.crash_job import BY_BATCH, DELAY_S, EVENT_TIME, LATE, QUERIES
from trimtab.api.evaluate import evaluate

FILE_MS = 1500  # of the stream, in each file
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
Answer = Mapping[str, collections.Counter[tuple[Any, ...]]]
"""How often each row came out: by query, for late rows, and for the function sink."""


def make_input(folder: Path, seed: int, files: int, rows: int) -> None:
    """Files of events, each a second or so of the stream; most rows a little late, some too late."""
    dice = random.Random(seed)
    folder.mkdir(parents=True)
    keys = max(10, files * rows // 60)
    for number in range(files):
        now_ms = number * FILE_MS
        events = [_event(dice, keys, now_ms, can_be_late=number >= 8) for _ in range(rows)]
        table = pa.table(
            {
                "k": pa.array([key for key, _, _ in events], pa.int64()),
                "ts": pa.array([at for _, at, _ in events], pa.timestamp("us", tz="UTC")),
                "x": pa.array([x for _, _, x in events], pa.int64()),
            }
        )
        path = folder / f"{number:05d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + number,) * 2)  # the order in which Spark takes them


def _event(dice: random.Random, keys: int, now_ms: int, *, can_be_late: bool) -> tuple[int, datetime.datetime, int]:
    # Too late by several files: after a kill between two of its logs, Spark may read the files of two batches as one,
    # and a row that is late by one file only is on time then.
    late_ms = DELAY_S * 1000 + 6 * FILE_MS
    too_late = dice.random() < 0.03 and can_be_late
    age_ms = dice.randint(late_ms, late_ms + 2 * FILE_MS) if too_late else dice.randint(0, DELAY_S * 400)
    at = START + datetime.timedelta(
        milliseconds=now_ms + dice.randint(0, FILE_MS) - age_ms, microseconds=dice.randrange(4)
    )
    return dice.randrange(keys), at, dice.randrange(100)


def expected(folder: Path) -> Answer:
    """The answer by `trimtab.evaluate`, when each file is a batch: rows are late by the files before theirs."""
    delay = datetime.timedelta(seconds=DELAY_S)
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    newest: datetime.datetime | None = None
    taken, late = [], []
    for table in tables:
        times = table.column("ts").to_pylist()
        is_late = pa.array([newest is not None and at < newest - delay for at in times])
        late.append(table.filter(is_late))
        taken.append(table.filter(pc.invert(is_late)))
        newest = max([*times, *([] if newest is None else [newest])])
    ticks = {"ticks": pa.concat_tables(taken)}
    right = {name: _counted(evaluate(sql, ticks, event_time=EVENT_TIME, delay=delay)) for name, sql in QUERIES.items()}
    by_batch = collections.Counter(tuple(map(str, row)) for row in right[BY_BATCH].elements())
    return {**right, LATE: _counted(pa.concat_tables(late)), f"{BY_BATCH} by batch": by_batch}


def answer(output: Path) -> Answer:
    """What a job wrote: each query's parquet files, the late rows, and the rows that the function sink got."""
    found: dict[str, collections.Counter[tuple[Any, ...]]] = {}
    for name in (*QUERIES, LATE):
        # As any reader would read the folder: what a crash left half done must not disturb it.
        found[name] = _counted(pa_dataset.dataset(output / name, format="parquet").to_table())
    batches = sorted((output / f"{BY_BATCH}-by-batch").glob("*.json"))
    rows = collections.Counter(tuple(row) for file in batches for row in json.loads(file.read_text()))
    return {**found, f"{BY_BATCH} by batch": rows}


def _counted(table: pa.Table) -> collections.Counter[tuple[Any, ...]]:
    return collections.Counter(tuple(row.values()) for row in table.to_pylist())


def differences(right: Answer, found: Answer) -> list[str]:
    """What is missing and what is too much, by query."""
    found_wrong = []
    for name, rows in right.items():
        missing, extra = rows - found[name], found[name] - rows
        if missing or extra:
            shown = [f"-{row}" for row in list(missing)[:2]] + [f"+{row}" for row in list(extra)[:2]]
            found_wrong.append(f"{name}: {missing.total()} missing, {extra.total()} too many: {' '.join(shown)}")
    return found_wrong
