"""The files of results: ID.json, ID.png and ID.svg in a folder, and their small copies for the documentation."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trimtab.errors import InputError
from trimtab_lab.record import Record, from_json, small, to_json


def make_folder(folder: Path) -> None:
    """Make the folder and check that it can be written to: before a long run, not after it.

    Raises InputError `input.file`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError("input.file", f"{folder} can't be written to: {error.strerror}") from error


def write_record(record: Record, folder: Path) -> Path:
    """Write ID.json."""
    return _write(folder / f"{record.id}.json", _text(to_json(record)).encode())


def write_picture(id_: str, png: bytes, svg: bytes, folder: Path) -> tuple[Path, Path]:
    """Write ID.png and ID.svg."""
    return _write(folder / f"{id_}.png", png), _write(folder / f"{id_}.svg", svg)


def write_page(text: str, docs: Path) -> Path:
    """Write lab.md."""
    return _write(docs / "lab.md", text.encode())


def read_record(path: Path) -> Record:
    """Read an ID.json.

    Raises InputError `input.file` if it can't be read or holds no record.
    """
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError("input.file", f"{path} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("input.file", f"{path} holds no result of the lab", "`trimtab lab` writes one") from error


def read_records(folder: Path, ids: Iterable[str]) -> list[Record]:
    """The records of those of the ids that the folder has, in the order of the ids."""
    paths = (folder / f"{id_}.json" for id_ in ids)
    return [read_record(path) for path in paths if path.exists()]


def copy_small(record: Record, source: Path, target: Path) -> None:
    """Write the record with few digits and thinned series, and its PNG, to the folder of the lab's page."""
    values = to_json(record)
    values |= {name: small(values[name]) for name in ("tables", "series")}
    _write(target / f"{record.id}.json", _text(values).encode())
    picture = source / f"{record.id}.png"
    if picture.exists():
        _write(target / picture.name, picture.read_bytes())


def _text(values: dict[str, Any]) -> str:
    """JSON with a line for each entry and each row of a table, so that diffs are short."""
    parts = []
    for name, value in values.items():
        if name in ("series", "machine", "versions", "verdict") and value:
            inner = ",\n".join(f"    {_compact(key)}: {_compact(each)}" for key, each in value.items())
            parts.append(f"  {_compact(name)}: {{\n{inner}\n  }}")
        elif name == "tables":
            parts.append(f'  "tables": [{", ".join(_table_text(table) for table in value)}]')
        else:
            parts.append(f"  {_compact(name)}: {_compact(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _table_text(table: dict[str, Any]) -> str:
    head = ", ".join(f"{_compact(name)}: {_compact(table[name])}" for name in ("title", "columns"))
    rows = ",\n".join(f"    {_compact(row)}" for row in table["rows"])
    return f'{{{head}, "rows": [\n{rows}\n  ]}}'


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _write(path: Path, content: bytes) -> Path:
    """Write atomically: an interrupted run leaves the older file intact."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError("input.file", f"{path} can't be written: {error.strerror}") from error
    return path
