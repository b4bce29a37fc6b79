"""Parcels: what tasks send to engines arrives whole, uncopied, and the same however ranges are shared out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.kept_source import KeptSource
from tests.support.tier_one_cases import ENGINES, KEY_GROUPS, SCHEMA, bag, intake_for, orders_for, rows_of
from trimtab.engine.columns.watermark import BatchTime, TimeRule
from trimtab.sources.source import UNDECODED, Range
from trimtab.worker import exchange
from trimtab.worker.exchange import Parcel, Reading, head_of_all
from trimtab.worker.intake import ORIGINAL, PARTITION, POSITION, SOURCE_PARTITION
from trimtab.worker.left_out import completed
from trimtab.worker.orders import Head
from trimtab.worker.tier_one import ColumnTierOne


def test_a_parcel_arrives_whole_and_its_columns_are_not_copied() -> None:
    rows, head = rows_of(50), Head(50, {"a": 7})
    lost = pa.table([["a"], [3], [b"?"], ["spoilt"]], schema=UNDECODED)
    for aside in (None, lost):
        packed = Parcel(head, rows.to_batches(), aside).packed(SCHEMA).to_pybytes()
        found = Parcel.unpacked(packed)
        assert (found.head, found.aside) == (head, aside)
        assert bag(pa.Table.from_batches(found.batches)) == bag(rows)
        at, size = pa.py_buffer(packed).address, len(packed)
        buffers = [buffer for batch in found.batches for column in batch.columns for buffer in column.buffers()]
        assert all(at <= buffer.address < at + size for buffer in buffers if buffer is not None and buffer.size)
        x = found.batches[0].column("x").fill_null(0).to_numpy()
        assert x.flags.aligned, "machine code is for columns that are aligned"


def test_an_engine_without_rows_gets_the_head() -> None:
    found = Parcel.unpacked(Parcel(Head(3, {"a": 5}), []).packed(SCHEMA))
    assert found == Parcel(Head(3, {"a": 5}), [])


def test_many_rows_travel_in_several_parcels_one_of_which_has_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "PARCEL_BYTES", 300)
    source = KeptSource(str(tmp_path), SCHEMA)
    source.add("a", rows_of(90))
    one = ColumnTierOne(intake_for("one"), SCHEMA, KEY_GROUPS, keep_original=False)
    reading = Reading(source, SCHEMA, one, orders_for(BatchTime(TimeRule(0))))
    sent = [(engine, Parcel.unpacked(packed)) for engine, packed in reading.parcels([Range("a", 0, 90)])]
    assert len(sent) > 2 * ENGINES
    assert sum(batch.num_rows for _, each in sent for batch in each.batches) == 90
    for number in range(ENGINES):
        assert head_of_all(each.head for engine, each in sent if engine == number).events == 90


@pytest.mark.parametrize("together", [1, 25, 1_000])
def test_ranges_that_are_sent_together_give_the_same_as_apart(
    tmp_path: Path, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "TOGETHER", together)
    source = KeptSource(str(tmp_path), SCHEMA, spoilt=11)
    for number in range(3):
        source.add(f"p{number}", rows_of(20, seed=number))
    one = ColumnTierOne(intake_for("routes"), SCHEMA, KEY_GROUPS, keep_original=False)
    reading = Reading(source, SCHEMA, one, orders_for(BatchTime(TimeRule(0))))
    parts = [Range(f"p{number}", 2, 20) for number in range(3)] + [Range("p9", 4, 4)]
    sent: list[list[Parcel]] = [[] for _ in range(ENGINES)]
    for engine, packed in reading.parcels(parts):
        sent[engine].append(Parcel.unpacked(packed))
    assert len(sent[0]) == {1: 3, 25: 2, 1_000: 1}[together]
    whole = {part.partition: source.read(part) for part in parts[:3]}
    heads = {
        name: one.split(rows.table, reading.orders, [(name, rows.table.num_rows)])[0] for name, rows in whole.items()
    }
    for parcels in sent:
        head = head_of_all(each.head for each in parcels)
        assert head == Head(54, {name: each.newest_us[name] for name, each in heads.items()})
    _, split = one.split(pa.concat_tables([rows.table for rows in whole.values()]), reading.orders)
    for parcels, expected in zip(sent, split, strict=True):
        rows = pa.Table.from_batches([batch for each in parcels for batch in each.batches])
        assert bag(completed(rows, expected.schema, one.hashes)) == bag(expected)
    lost = [each.aside for parcels in sent for each in parcels if each.aside is not None]
    assert sum(each.num_rows for each in lost) == sum(r.undecoded.num_rows for r in whole.values() if r.undecoded)
    assert all(each.aside is None for parcels in sent[1:] for each in parcels)


def test_whole_rows_arrive_with_their_places_in_the_source_and_others_without(tmp_path: Path) -> None:
    source = KeptSource(str(tmp_path), SCHEMA, spoilt=11)
    whole = {f"p{number}": rows_of(30, seed=number) for number in range(2)}
    for name, rows in whole.items():
        source.add(name, rows)
    intake = intake_for("routes", SOURCE_PARTITION)
    for keep_original in (True, False):
        one = ColumnTierOne(intake, SCHEMA, KEY_GROUPS, keep_original=keep_original)
        reading = Reading(source, SCHEMA, one, orders_for(BatchTime(TimeRule(0))))
        parcels = [Parcel.unpacked(packed) for _, packed in reading.parcels([Range(name, 3, 30) for name in whole])]
        sent = pa.Table.from_batches([batch for each in parcels for batch in each.batches])
        assert {PARTITION, POSITION} <= {*sent.column_names} if keep_original else POSITION not in sent.column_names
        for row in sent.select([PARTITION, POSITION, ORIGINAL]).to_pylist() if keep_original else ():
            assert repr(row[ORIGINAL]) == repr(whole[row[PARTITION]].slice(row[POSITION], 1).to_pylist()[0])
