"""The one-pass running aggregates agree with folding every prefix."""

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trimtab.engine.match.aggregates import aggregate
from trimtab.engine.match.ir.expression import AGGREGATES
from trimtab.engine.match.run.prefixes import prefixes

VALUES = st.none() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5, math.nan])
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=12)
BOOLS = st.lists(st.tuples(st.none() | st.booleans(), st.none()), max_size=8)


@given(st.sampled_from(sorted(AGGREGATES)), ROWS, BOOLS, st.integers(0, 12))
def test_a_running_aggregate_is_that_of_each_prefix(
    function: str, rows: list[tuple[object, object]], bools: list[tuple[object, object]], cut: int
) -> None:
    wide = function in ("max_by", "min_by")
    table = bools if function.startswith("bool") else rows
    given_rows = [row if wide else row[:1] for row in table]
    owners = [0] * min(cut, len(table)) + [1] * max(0, len(table) - cut)
    type_ = pa.float64()
    found = prefixes(function, given_rows, owners, type_)
    for i in range(len(given_rows)):
        begin = owners.index(owners[i])
        assert repr(found[i]) == repr(aggregate(function, given_rows[begin : i + 1], type_))
