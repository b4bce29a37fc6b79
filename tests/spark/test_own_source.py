"""The example of a source of one's own keeps the contract, and a job reads it."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from trimtab.sources.source import Range
from trimtab.testing import check_source

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "own_source.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("own_source", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own_source", module)  # so that it pickles
    spec.loader.exec_module(module)
    # Workers of this session don't have the module.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    yield module
    cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def test_lines_that_are_appended_are_read_wherever_ranges_are_cut(example: Any, tmp_path: pathlib.Path) -> None:
    example.write_logs(tmp_path)
    source = example.Logs(str(tmp_path))
    check_source(source, reads=60)
    before = source.latest()["north.log"]
    with (tmp_path / "north.log").open("a") as log:
        log.write("01-01T12:00:07Z,0.1\nmore")
    rows = source.read(Range("north.log", before, source.latest()["north.log"]))
    assert [row["load"] for row in rows.table.to_pylist()] == [0.1]


def test_a_job_reads_the_source(
    example: Any, spark: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example.run(spark, tmp_path)
    assert "machine 1 was busy 3 times since 12:00:01" in capsys.readouterr().out
    bad = pq.read_table(tmp_path / "bad").to_pylist()
    assert sorted(row["source_partition"] for row in bad) == ["north.log", "south.log"]
    assert {row["source_value"] for row in bad} == {b"no row"}
