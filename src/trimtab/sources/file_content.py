"""What the parser of a format makes of a file: columns as they are written there, and what it couldn't read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa


class Bad(NamedTuple):
    """A line that isn't a row; `line` counts from 1, and is 0 for the file as a whole."""

    line: int
    value: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Content:
    """A file, parsed.

    table    those of the wanted columns that the file has, with the types that it has them in
    raw      the line and the bytes of a row of the table, for one that turns out to be wrong
    bad      what the table lacks
    """

    table: pa.Table
    raw: Callable[[int], tuple[int, bytes]]
    bad: list[Bad] = field(default_factory=list)


Parser = Callable[[pa.NativeFile, pa.Schema], Content]

UNREADABLE = (
    *(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, pa.ArrowIndexError, pa.ArrowSerializationError),
    *(pa.ArrowNotImplementedError, OSError),
)
"""What Arrow raises for a file that is damaged, or written in a way that it can't read.

Not ArrowMemoryError, ArrowCapacityError and ArrowCancelled: they say nothing of the file.
"""


def wanted(names: Sequence[str], schema: pa.Schema) -> list[str]:
    """Those of the schema's columns that a file has. Raises ArrowInvalid if there are none, or several of one name."""
    found = [name for name in schema.names if name in names]
    if not found:
        raise pa.ArrowInvalid(f"it has none of the columns {', '.join(schema.names)}, but {', '.join(names)}")
    if twice := [name for name in found if list(names).count(name) > 1]:
        raise pa.ArrowInvalid(f"it has several columns {twice[0]}")
    return found
