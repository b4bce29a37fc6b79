"""Esper as a peer: the same rules over the same ticks, in one Java process of its own, without Spark."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rules import SCHEMA, Rule
from tests.support.maven import Artifact, jars, java

VERSION = "9.0.0"
_ESPER = [Artifact("com.espertech", f"esper-{name}", VERSION) for name in ("runtime", "compiler")]
_SOURCE = Path(__file__).with_name("EsperRules.java")


@dataclass(frozen=True, slots=True)
class Found:
    """How long each batch took, and how many matches each rule found in all of them."""

    batches_ms: tuple[float, ...]
    matches: dict[str, int]


def run(rules: Sequence[Rule], files: Sequence[Path], folder: Path, *, threads: int) -> Found:
    """Run the rules over the files, each of which is a batch; `folder` is for what Esper reads."""
    folder.mkdir(parents=True, exist_ok=True)
    texts, ticks = folder / "rules.tsv", folder / "ticks.bin"
    texts.write_text("".join(f"{each.name}\t{each.epl}\n" for each in rules), encoding="utf-8")
    tables = [pq.read_table(file) for file in files]
    ticks.write_bytes(b"".join(_packed(each) for each in tables))
    classes = ":".join(str(jar) for jar in jars("esper", _ESPER))
    command = [java(), "-Xmx3g", "-cp", classes, str(_SOURCE), str(texts), str(ticks)]
    command += [str(tables[0].num_rows), str(threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    fields = [line.split("\t") for line in lines]
    return Found(
        tuple(float(each[1]) for each in fields if each[0] == "batch"),
        {each[1]: int(each[2]) for each in fields if each[0] == "matches"},
    )


def _packed(table: pa.Table) -> bytes:
    """Rows one after another, eight bytes a column."""
    columns = [table["symbol"], table["ts"].cast(pa.int64()), table["price"], table["volume"]]
    kinds = ["<i8", "<i8", "<f8", "<i8"]
    rows = np.empty(table.num_rows, list(zip(SCHEMA.names, kinds, strict=True)))
    for name, column in zip(SCHEMA.names, columns, strict=True):
        rows[name] = column.to_numpy()
    return rows.tobytes()
