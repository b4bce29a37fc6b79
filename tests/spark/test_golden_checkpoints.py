"""Checkpoints of earlier builds: a job goes on from them, and its answers are those of a single pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.golden import checkpoints
from tests.golden.queries import QUERIES
from tests.support.laws import bag
from trimtab import evaluate

KEPT = sorted(path.name.removesuffix(checkpoints.SUFFIX) for path in checkpoints.FOLDER.glob(f"*{checkpoints.SUFFIX}"))


def test_there_is_a_golden_checkpoint() -> None:
    assert KEPT


@pytest.mark.parametrize("name", KEPT)
def test_a_job_goes_on_from_a_checkpoint_of_an_earlier_build(name: str, spark: Any, tmp_path: Path) -> None:
    checkpoints.unpack(name, tmp_path)
    run = checkpoints.run(spark, tmp_path, checkpoints.BATCHES, close=True)
    assert [batch.batch for batch in run.history] == list(range(checkpoints.BEFORE, checkpoints.BATCHES + 1))
    whole = pa.concat_tables(checkpoints.tables())
    for query, sql in QUERIES.items():
        expected = evaluate(sql, {"t": whole}, event_time="ts")
        found = pa.concat_tables([pq.read_table(path) for path in (tmp_path / "answers" / query).glob("*.parquet")])
        assert expected.num_rows > 0, query
        assert bag(found.select(expected.column_names).cast(expected.schema)) == bag(expected), query
    assert_numbered(tmp_path)


def assert_numbered(home: Path) -> None:
    """Batches have numbers of their own, and carry the incarnation of the stream."""
    stream = home / "checkpoint" / "streams" / "t"
    manifest = json.loads(max((stream / "manifests").glob("*.json")).read_text())["body"]
    incarnation = json.loads((stream / "stream.json").read_text())["body"]["incarnation"]
    assert manifest["incarnation"] == incarnation
    assert (manifest["batch"], manifest["spark_batch"]) == (checkpoints.BATCHES, checkpoints.BATCHES - 1)
    assert all(incarnation[:12] in path.name for path in (home / "answers").rglob("*.parquet"))
