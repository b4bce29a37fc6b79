"""A source of trimtab's own for tests: each partition is a folder of Arrow files, and a position counts its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather

from trimtab.errors import InputError
from trimtab.sources.source import UNDECODED, Partition, Range, Rows


@dataclass(frozen=True)
class KeptSource:
    """Rows in files; a test adds more while a job reads them."""

    folder: str
    columns: pa.Schema
    dropped: int = 0  # how many rows of each partition are gone
    spoilt: int | None = None  # rows whose x is this can't be decoded
    appended_us: int | None = None  # when all of them were appended
    lost: str = ""  # the partition whose rows are gone when they are read
    begins_at_end: bool = False  # whether a job reads only what comes later

    @property
    def schema(self) -> pa.Schema:
        return self.columns

    def add(self, partition: str, rows: pa.Table) -> None:
        """Append rows to a partition, which may be new."""
        folder = Path(self.folder) / partition
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.arrow")))
        written = folder / f".{number:06d}"
        feather.write_feather(rows, str(written), compression="uncompressed")
        written.rename(folder / f"{number:06d}.arrow")

    def partitions(self) -> Mapping[str, Partition]:
        starts = self.latest() if self.begins_at_end else dict.fromkeys(self._names(), 0)
        return {name: Partition(self.dropped, start) for name, start in starts.items()}

    def latest(self) -> Mapping[str, int]:
        return {name: self._table(name).num_rows for name in self._names()}

    def _names(self) -> list[str]:
        return sorted(each.name for each in Path(self.folder).iterdir())

    def read(self, part: Range) -> Rows:
        if part.partition == self.lost:
            raise InputError("source.lost", f"{part.partition} is gone", "a test says so")
        table = self._table(part.partition).slice(part.start, part.end - part.start)
        positions = pa.array(range(part.start, part.start + table.num_rows), pa.int64())
        if self.spoilt is None:
            return Rows(table, self._appended(table), positions=positions)
        is_spoilt = pc.fill_null(pc.equal(table.column("x"), self.spoilt), False)
        found = [
            (part.partition, part.start + number, b"?", "spoilt")
            for number, each in enumerate(is_spoilt.to_pylist())
            if each
        ]
        undecoded = pa.table([list(column) for column in zip(*found, strict=True)] or [[]] * 4, schema=UNDECODED)
        is_whole = pc.invert(is_spoilt).combine_chunks()
        whole = table.filter(is_whole)
        return Rows(whole, self._appended(whole), undecoded, positions=positions.filter(is_whole))

    def _appended(self, rows: pa.Table) -> pa.Array | None:
        return None if self.appended_us is None else pa.array([self.appended_us] * rows.num_rows, pa.int64())

    def _table(self, partition: str) -> pa.Table:
        files = sorted((Path(self.folder) / partition).glob("*.arrow"))
        return pa.concat_tables([feather.read_table(str(file), memory_map=False) for file in files])
