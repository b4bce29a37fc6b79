"""The two stateless steps around an operator: the intake before it and the finish after it.

Both are lists of row-local Spark SQL expressions. Columns that are only passed on are never copied
and need no database; DuckDB computes the rest. On Spark the same texts run in the JVM instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
from sqlglot import exp, parse_one

from trimtab.engine.operator import ARRIVAL
from trimtab.engine.signature import signed
from trimtab.errors import InputError
from trimtab.rowwise.columnar import obstacle
from trimtab.rowwise.wrapping import wrapping

Columns = tuple[tuple[str, str], ...]
"""Pairs of an output name and the Spark SQL text that computes it."""


@dataclass(frozen=True, slots=True)
class _RowStep:
    """Columns that are computed row by row, for the rows where `where` holds.

    `types` are the types that the compiled query expects, one per column; empty: any type.
    """

    columns: Columns
    where: str | None = None
    types: tuple[pa.DataType, ...] = ()
    wraps: ClassVar[bool] = False  # whether integers that don't fit wrap around

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self.columns]

    def _arrays(self, table: pa.Table, rows: pa.Array | None) -> list[pa.ChunkedArray]:
        kept = table if rows is None else table.take(rows)
        return _project(kept, [text for _, text in self.columns], self.types, wraps=self.wraps)


@signed("intake")
@dataclass(frozen=True, slots=True)
class IntakeStep(_RowStep):
    """What is computed for every row before the operator reads it, and which rows it reads: as in tier 1 on Spark."""

    wraps: ClassVar[bool] = True

    def run(self, table: pa.Table) -> pa.Table:
        """The columns and `__arrival`, the row's number in `table`, for the rows that pass the filter."""
        rows = _filter(table, self.where, wraps=self.wraps)
        arrival = pa.array(np.arange(table.num_rows, dtype=np.int64)) if rows is None else rows
        return pa.table([*self._arrays(table, rows), arrival], names=[*self._names, ARRIVAL])


@dataclass(frozen=True, slots=True)
class Finish(_RowStep):
    """What is computed from the operator's output: the columns of the result, under their names."""

    def run(self, table: pa.Table) -> pa.Table:
        """The final columns for the rows that pass the filter; no rows give the same schema."""
        rows = _filter(table, self.where, wraps=self.wraps)
        return pa.table(self._arrays(table, rows), names=self._names)


@lru_cache(maxsize=4096)
def bare_column(text: str) -> str | None:
    """The column that an expression only passes on, if it does.

    >>> bare_column("`a b`"), bare_column("price"), bare_column("price + 1")
    ('a b', 'price', None)
    """
    tree = parse_one(text, read="spark")
    return tree.name if isinstance(tree, exp.Column) and not tree.table else None


def _project(
    table: pa.Table, texts: Sequence[str], types: Sequence[pa.DataType], *, wraps: bool
) -> list[pa.ChunkedArray]:
    arrays: list[pa.ChunkedArray | None] = [_passed_on(table, text) for text in texts]
    missing = [i for i, array in enumerate(arrays) if array is None]
    if missing:
        computed = _compute(table, [texts[i] for i in missing], wraps=wraps)
        for i, array in zip(missing, computed, strict=True):
            arrays[i] = as_expected(array, types[i]) if types else array
    return [array for array in arrays if array is not None]


def _passed_on(table: pa.Table, text: str) -> pa.ChunkedArray | None:
    name = bare_column(text)
    if name is None:
        return None
    at = table.schema.get_field_index(name)
    if at < 0:
        hint = f"its columns are {', '.join(table.column_names)}"
        raise InputError("input.column", f"the table has no column {name}", hint)
    return table.column(at)


def as_expected(array: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The column as the type that a query expects. Raises InputError `input.value` if a value doesn't fit it."""
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise InputError("input.value", f"a value doesn't fit {wanted}: {error}") from error


def _filter(table: pa.Table, where: str | None, *, wraps: bool) -> pa.Array | None:
    """The numbers of the rows for which the condition holds; None: all of them."""
    if where is None:
        return None
    (holds,) = _compute(table, [where], wraps=wraps)
    found = np.flatnonzero(np.asarray(holds.combine_chunks().fill_null(False), dtype=np.bool_))
    return pa.array(found, pa.int64())


def _compute(table: pa.Table, texts: Sequence[str], *, wraps: bool) -> list[pa.ChunkedArray]:
    import duckdb  # here, so that a query of bare columns never loads it

    from trimtab.rowwise import duck

    used = table.select(used_columns(tuple(texts), tuple(table.column_names)))
    try:
        return duck.compute(used, texts)
    except (duckdb.Error, pa.ArrowException) as error:
        if wraps:
            with suppress(duckdb.Error, pa.ArrowException):
                trees = [wrapped_around(text, used.schema) for text in texts]
                return duck.run_translated(used, [duck.translate_tree(tree, used.schema) for tree in trees])
        first = str(error).split("\n", 1)[0]
        raise InputError("input.value", f"computing {', '.join(texts)}: {first}") from error


def wrapped_around(text: str, schema: pa.Schema) -> exp.Expr:
    """An expression, in which integers wrap around if it is known to be the same in Spark then."""
    tree = parse_one(text, read="spark")
    return wrapping(tree, schema) if obstacle(text, schema) is None else tree


@lru_cache(maxsize=1024)
def used_columns(texts: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """The columns that the texts use: DuckDB gets no others."""
    mentioned = {column.name.lower() for text in texts for column in parse_one(text, read="spark").find_all(exp.Column)}
    return [name for name in names if name.lower() in mentioned]
