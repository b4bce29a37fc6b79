"""The aggregate functions of GROUP BY windows, by name."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from trimtab.engine.windows.accumulator import Accumulator
from trimtab.engine.windows.cardinality import DEFAULT_P, Cardinality
from trimtab.engine.windows.choices import Choice, Rule
from trimtab.engine.windows.collections import Collection, Tally
from trimtab.engine.windows.quantiles import DEFAULT_K, Quantiles
from trimtab.engine.windows.totals import VARIANCES, Count, FloatTotal, WideSum
from trimtab.errors import InputError

CHOICES = {
    "min": Rule.SMALLEST,
    "max": Rule.LARGEST,
    "bool_and": Rule.SMALLEST,
    "bool_or": Rule.LARGEST,
    "first_value": Rule.FIRST,
    "last_value": Rule.LAST,
    "first_known": Rule.FIRST_KNOWN,  # FIRST_VALUE(x) IGNORE NULLS
    "last_known": Rule.LAST_KNOWN,
    "any_value": Rule.FIRST_KNOWN,
    "min_by": Rule.SMALLEST_BY,
    "max_by": Rule.LARGEST_BY,
}
TOTALS = ("sum", "avg", *VARIANCES)
COLLECTIONS = ("array_agg", "collect_list")
FUNCTIONS = (
    "count",
    *TOTALS,
    *CHOICES,
    *COLLECTIONS,
    "count_distinct",
    "approx_count_distinct",
    "percentile",  # parameters: k, rank
    "percentiles",  # parameters: k, rank, rank ...
    "top_k",  # parameters: how many
)

APPROXIMATE_ORDER = ("percentile", "percentiles")
"""Functions whose answer depends on how rows are divided over engines: what a sketch keeps depends on their order."""


def is_number(kind: pa.DataType) -> bool:
    """Whether values can be added up and averaged."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind))


def is_ordered(kind: pa.DataType) -> bool:
    """Whether values have a smallest and a largest."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def accumulator(function: str, types: Sequence[pa.DataType], parameters: Sequence[float] = ()) -> Accumulator:
    """The accumulator of a function; raises InputError `input.type` for types that it doesn't take."""
    types = tuple(types)
    if wrong := fault(function, types):
        raise InputError("input.type", wrong)
    if function == "count":
        return Count()
    kind = types[0]
    if function in VARIANCES or (function in TOTALS and pa.types.is_floating(kind)):
        return FloatTotal(function)
    if function in TOTALS:
        return WideSum(kind, function == "avg")
    if function in CHOICES:
        return Choice(CHOICES[function], types)
    if function in COLLECTIONS:
        return Collection(kind, nulls=function == "array_agg")
    if function == "approx_count_distinct":
        return Cardinality(int(parameters[0]) if parameters else DEFAULT_P)
    if function in ("percentile", "percentiles"):
        k = int(parameters[0]) if parameters else DEFAULT_K
        return Quantiles(kind, tuple(parameters[1:]), function == "percentiles", k)
    return Tally(kind, int(parameters[0]) if function == "top_k" else None)


def fault(function: str, types: Sequence[pa.DataType]) -> str | None:
    """What is wrong with applying a function to these types, or None."""
    if function not in FUNCTIONS:
        return f"no aggregate function {function}"
    if function == "count":
        return None
    wanted = 2 if function in ("min_by", "max_by") else 1
    if len(types) != wanted:
        return f"{function} takes {wanted} argument(s), not {len(types)}"
    kind = types[-1]
    if function in TOTALS:
        addable = is_number(kind) or (function == "sum" and pa.types.is_duration(kind))
        return None if addable else f"{function} needs a number, not {kind}"
    if function in ("bool_and", "bool_or"):
        return None if pa.types.is_boolean(kind) else f"{function} needs a boolean, not {kind}"
    if function in ("percentile", "percentiles"):
        usable = is_number(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        return None if usable else f"{function} needs a number or a time, not {kind}"
    if function in ("min", "max", "min_by", "max_by", "top_k"):
        return None if is_ordered(kind) else f"{function} needs values with an order, not {kind}"
    if function in ("count_distinct", "approx_count_distinct"):
        return None if is_ordered(kind) else f"{function} can't compare values of type {kind}"
    return None
