"""Row-local expressions of which some rows fail: each such row fails alone, as in tier 1 on Spark.

All rows are computed at once. Only if that fails is each expression computed again: with integers that wrap around as
in Spark, and by DuckDB's TRY, which goes row by row where it has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.errors import InputError
from trimtab.rowwise.local import as_expected, used_columns, wrapped_around

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A computed column, with nulls where the computation failed. `failed`: these rows; None: there are none."""

    column: pa.Array
    failed: BoolArray | None = None


def attempted(table: pa.Table, texts: Sequence[str], types: Sequence[pa.DataType | None]) -> list[Attempt]:
    """The Spark SQL expressions over the table's rows, each as its type (None: as whatever it gives).

    Raises InputError for an expression that DuckDB doesn't understand.
    """
    if not texts:
        return []
    import duckdb  # here, so that a query of bare columns never loads it

    from trimtab.rowwise import duck

    used = table.select(used_columns(tuple(texts), tuple(table.column_names)))
    try:
        found = [Attempt(_single(column)) for column in duck.compute(used, texts)]
    except (duckdb.Error, pa.ArrowException):
        found = [_one_by_one(used, text) for text in texts]
    return [_typed(each, kind) for each, kind in zip(found, types, strict=True)]


def _one_by_one(table: pa.Table, text: str) -> Attempt:
    import duckdb

    from trimtab.rowwise import duck

    translated = duck.translate_tree(wrapped_around(text, table.schema), table.schema)
    # A null that was computed is inside a struct, so it can be told from a failure, which leaves no struct.
    attempts = [f"TRY({translated})", f"TRY(struct_pack(v := {translated})) IS NULL"]
    here = duck.connection()
    # What is written twice would be computed once, outside of TRY, and fail there for all rows.
    here.execute("SET disabled_optimizers='common_subexpressions'")
    try:
        value, failed = duck.run_translated(table, attempts)
    except (duckdb.Error, pa.ArrowException) as error:
        first = str(error).split("\n", 1)[0]
        raise InputError("input.value", f"computing {text}: {first}") from error
    finally:
        here.execute("RESET disabled_optimizers")
    return Attempt(_single(value), _mask(np.asarray(_single(failed))))


def _typed(attempt: Attempt, kind: pa.DataType | None) -> Attempt:
    """The column as the type that the query expects; values that don't fit it have failed, too."""
    if kind is None or attempt.column.type == kind:
        return attempt
    parts = list(_fitting(attempt.column, kind))
    unfit = np.concatenate([np.full(len(part), is_unfit) for part, is_unfit in parts])
    failed = unfit if attempt.failed is None else unfit | attempt.failed
    return Attempt(pa.concat_arrays([part for part, _ in parts]), _mask(failed))


def _fitting(array: pa.Array, kind: pa.DataType) -> list[tuple[pa.Array, bool]]:
    """The array in parts that fit the type, and nulls for values that don't; found by halving, as there are few."""
    try:
        return [(_single(as_expected(pa.chunked_array([array]), kind)), False)]
    except InputError:
        if len(array) == 1:
            return [(pa.nulls(1, kind), True)]
        half = len(array) // 2
        return _fitting(array.slice(0, half), kind) + _fitting(array.slice(half), kind)


def _single(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _mask(failed: BoolArray) -> BoolArray | None:
    return failed if failed.any() else None
