"""What the crash law compares: a seeded input, the right answer to it, and what a job has written."""

from __future__ import annotations

import collections
import datetime
import itertools
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

from tests.support.crash_job import BY_BATCH, DELAY_S, EVENT_TIME, EXTRAS, LATE, QUERIES, STREAMS
from trimtab.api.evaluate import evaluate

FILE_MS = 1500  # of the stream, in each file
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
Answer = Mapping[str, collections.Counter[tuple[Any, ...]]]
"""How often each row came out: by query, for late rows, and for the function sink."""


def make_input(folder: Path, seed: int, files: int, rows: int, *, late_from: int = 8) -> None:
    """Files of events for each stream, each a second or so of it; most rows a little late, some too late.

    `late_from`: the first file with rows that are too late.
    """
    dice = random.Random(seed)
    keys = max(10, files * rows // 60)
    for stream, number in itertools.product(STREAMS, range(files)):
        events = [_event(dice, keys, number * FILE_MS, can_be_late=number >= late_from) for _ in range(rows)]
        table = pa.table(
            {
                "k": pa.array([key for key, _, _ in events], pa.int64()),
                "ts": pa.array([at for _, at, _ in events], pa.timestamp("us", tz="UTC")),
                "x": pa.array([x for _, _, x in events], pa.int64()),
            }
        )
        path = folder / stream / f"{number:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
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
    taken, late = {}, {}
    for stream in STREAMS:
        taken[stream], late[f"{stream} {LATE}"] = _sorted_out(folder / stream, delay)
    right = {name: counted(evaluate(sql, taken, event_time=EVENT_TIME, delay=delay)) for name, sql in QUERIES.items()}
    by_batch = collections.Counter(tuple(map(str, row)) for row in right[BY_BATCH].elements())
    return {**right, **{name: counted(rows) for name, rows in late.items()}, f"{BY_BATCH} by batch": by_batch}


def _sorted_out(folder: Path, delay: datetime.timedelta) -> tuple[pa.Table, pa.Table]:
    """The rows of a stream that are taken, and those that are late."""
    newest: datetime.datetime | None = None
    taken, late = [], []
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        times = table.column("ts").to_pylist()
        is_late = pa.array([newest is not None and at < newest - delay for at in times])
        late.append(table.filter(is_late))
        taken.append(table.filter(pc.invert(is_late)))
        newest = max([*times, *([] if newest is None else [newest])])
    return pa.concat_tables(taken), pa.concat_tables(late)


def schemas(folder: Path) -> Mapping[str, pa.Schema]:
    """The columns that each query puts out."""
    none = {stream: pq.read_table(next((folder / stream).glob("*.parquet"))).slice(0, 0) for stream in STREAMS}
    return {name: evaluate(sql, none, event_time=EVENT_TIME).schema for name, sql in QUERIES.items()}


def answer(output: Path) -> Answer:
    """What a job wrote to files: each query's rows, the late rows, and the rows that the function sink got."""
    return {**{name: _written(output / name) for name in QUERIES}, **file_answer(output)}


def file_answer(output: Path) -> Answer:
    """What a job writes to files in any case: the late rows, and the rows that the function sink got."""
    folders = {f"{stream} {LATE}": output / f"{stream}-{LATE}" for stream in STREAMS}
    found = {name: _written(folder) for name, folder in folders.items()}
    batches = sorted((output / f"{BY_BATCH}-by-batch").glob("*.json"))
    rows = collections.Counter(tuple(row) for file in batches for row in json.loads(file.read_text()))
    return {**found, f"{BY_BATCH} by batch": rows}


def strange_extras(folder: Path, output: Path) -> list[str]:
    """What the queries that came and went wrote and could not have: they may lack rows, but have none twice."""
    rows = [pq.read_table(path) for path in sorted((folder / "ticks").glob("*.parquet"))]
    whole = counted(evaluate(EXTRAS["copies"], {"ticks": pa.concat_tables(rows)}))
    extra = _written(output / "copies") - whole if (output / "copies").exists() else collections.Counter[Any]()
    return [f"copies: {extra.total()} too many: +{next(iter(extra))}"] if extra else []


def _written(folder: Path) -> collections.Counter[tuple[Any, ...]]:
    """The rows in a folder, as any reader would read it: what a crash left half done must not disturb it."""
    return counted(pa_dataset.dataset(folder, format="parquet").to_table())


def counted(table: pa.Table) -> collections.Counter[tuple[Any, ...]]:
    """How often each row is there."""
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
