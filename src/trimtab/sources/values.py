"""Values of messages become columns: the protocol that decoders follow, and the two that hardly decode.

A decoder sees whole arrays of values, and decodes them at once. Values that can't be decoded are found by halving:
one bad value among thousands costs some repetitions, and good values nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of some values.

    table     a row for each value that could be decoded, in the order of the values
    reasons   what is wrong with each of the others, by its place among the values
    """

    table: pa.Table
    reasons: Mapping[int, str] = field(default_factory=dict)


class Decoder(Protocol):
    """How values become rows. It is pickled with its source."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @property
    def takes_null(self) -> bool:
        """Whether a message without a value is a row, too; otherwise it never gets here."""

    def decode(self, values: pa.Array) -> Decoded:
        """The rows of binary values."""


@dataclass(frozen=True, slots=True)
class BytesValues:
    """Values as they are, in the column `value`."""

    schema: pa.Schema = field(default=pa.schema({"value": pa.binary()}))
    takes_null: bool = True

    def decode(self, values: pa.Array) -> Decoded:
        """The rows of binary values."""
        return Decoded(pa.table([values], schema=self.schema))


@dataclass(frozen=True, slots=True)
class StringValues:
    """Values that are text in UTF-8, in the column `value`."""

    schema: pa.Schema = field(default=pa.schema({"value": pa.string()}))
    takes_null: bool = True

    def decode(self, values: pa.Array) -> Decoded:
        """The rows of binary values."""
        return decode_halving(values, self._whole, self.schema)

    def _whole(self, values: pa.Array) -> pa.Table:
        return pa.table([as_text(values)], schema=self.schema)


def as_text(values: pa.Array) -> pa.Array:
    """Binary values as strings; raises ValueError if one isn't UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise ValueError("it isn't text in UTF-8") from error


def decode_halving(values: pa.Array, whole: Callable[[pa.Array], pa.Table], schema: pa.Schema) -> Decoded:
    """Decode values with a function that decodes all or none: where it raises ValueError, with halves of them.

    The text of the error for a single value is the reason why it can't be decoded.
    """
    tables, reasons = [schema.empty_table()], {}
    pieces = [(0, len(values))] if len(values) else []
    while pieces:
        start, end = pieces.pop()
        try:
            tables.append(whole(values[start:end]))
        except ValueError as error:
            if end - start == 1:
                reasons[start] = str(error)
            else:
                middle = (start + end) // 2
                pieces += [(middle, end), (start, middle)]  # the first half is the next to be taken
    return Decoded(pa.concat_tables(tables), reasons)
