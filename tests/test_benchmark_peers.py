"""The peers of the benchmarks read the same ticks and find the same matches as trimtab."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import trimtab
from benchmarks.spark import ticks
from benchmarks.spark.pattern import MATCH_COLUMNS, V_SHAPE, Match


def trimtabs_matches(table: pa.Table) -> list[Match]:
    found = trimtab.evaluate(V_SHAPE, {"ticks": table})
    columns = [
        found[name].cast(pa.int64()) if pa.types.is_timestamp(found[name].type) else found[name]
        for name in MATCH_COLUMNS
    ]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def test_no_two_ticks_have_the_same_time_and_files_are_in_order(tmp_path: Path) -> None:
    files = ticks.write_ticks(tmp_path, 3, 500, 20)
    table = ticks.read_ticks(files)
    assert table.schema == ticks.SCHEMA
    assert table.num_rows == 1500
    assert np.all(np.diff(table["ts"].cast(pa.int64()).to_numpy()) > 0)
    modified_s = [file.stat().st_mtime for file in files]
    assert modified_s == sorted(set(modified_s))


def test_the_same_seed_gives_the_same_ticks(tmp_path: Path) -> None:
    first, second, other = (
        ticks.read_ticks(ticks.write_ticks(tmp_path / str(place), 2, 100, 20, seed=seed))
        for place, seed in enumerate((3, 3, 4))
    )
    assert first.equals(second)
    assert not first.equals(other)


def test_shares_are_those_of_zipf(tmp_path: Path) -> None:
    table = ticks.read_ticks(ticks.write_ticks(tmp_path, 1, 50_000, 100))
    rows = np.bincount(table["symbol"].to_numpy(), minlength=100)
    assert len(rows) == 100
    assert rows[0] / rows[1] == pytest.approx(2, rel=0.1)
    assert rows[0] / rows[9] == pytest.approx(10, rel=0.2)


def test_every_key_comes_once_before_the_even_ones(tmp_path: Path) -> None:
    table = ticks.read_ticks(ticks.write_every_key(tmp_path, 250, rows_per_file=100))
    assert sorted(table["symbol"].to_pylist()) == list(range(250))
    later = ticks.read_ticks(ticks.write_uniform(tmp_path, 2, 5_000, 250, first_row=250))
    assert later["ts"][0].value - table["ts"][-1].value == ticks.APART_US
    rows = np.bincount(later["symbol"].to_numpy(), minlength=250)
    assert len(rows) == 250
    assert rows.min() > 10
    assert rows.max() < 80
    assert len(list(tmp_path.iterdir())) == 5


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Match]]:
    folder = tmp_path_factory.mktemp("ticks")
    files = ticks.write_ticks(folder, 2, 500, 25)
    expected = trimtabs_matches(ticks.read_ticks(files))
    assert len(expected) > 50
    return folder, expected


def test_the_loop_of_the_spark_peer_finds_trimtabs_matches_however_rows_are_cut(
    written: tuple[Path, list[Match]],
) -> None:
    peer = pytest.importorskip("benchmarks.spark.transform_with_state", reason="it is in the extra `spark`")
    folder, expected = written
    table = ticks.read_ticks(sorted(folder.iterdir()))
    for size in (1, 7, 2000):
        found: list[Match] = []
        for symbol in range(25):
            own = table.filter(pa.compute.equal(table["symbol"], symbol))
            times_us, prices = own["ts"].cast(pa.int64()).to_pylist(), own["price"].to_pylist()
            state = None
            for at in range(0, len(prices), size):
                matches, state = peer.step(state, times_us[at : at + size], prices[at : at + size])
                found += [(symbol, *match) for match in matches]
        assert sorted(found) == expected


@pytest.mark.spark
def test_transform_with_state_finds_trimtabs_matches_and_the_floor_reads_every_tick(
    written: tuple[Path, list[Match]], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="it is in the extra `spark`")
    from benchmarks.spark import floor, session, transform_with_state

    folder, expected = written
    spark = session.local_session()
    assert transform_with_state.matches(spark, folder, tmp_path / "state") == expected
    batches = floor.run(spark, folder, tmp_path / "floor")
    assert [batch.rows for batch in batches] == [500, 500]
    assert all(0 < batch.add_batch_ms <= batch.trigger_ms for batch in batches)
