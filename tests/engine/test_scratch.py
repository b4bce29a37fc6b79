"""Memory that the next batch overwrites must not be part of an answer."""

import numpy as np
import pyarrow as pa
import pytest

import trimtab
from trimtab.engine.match.kernels import generated as kernels

SQL = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES AVG(A.x) AS mean, COUNT(*) AS n
    PATTERN (A{2}) DEFINE A AS A.x >= 0)"""


@pytest.mark.slow
def test_an_answer_does_not_change_when_the_next_one_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "COMPILE_FROM_ROWS", 0)
    tables = [pa.table({"i": np.arange(1000), "x": np.full(1000, float(value))}) for value in (1, 2)]
    first = trimtab.evaluate(SQL, {"t": tables[0]})
    second = trimtab.evaluate(SQL, {"t": tables[1]})
    assert set(first["mean"].to_pylist()) == {1.0}
    assert set(second["mean"].to_pylist()) == {2.0}
    assert set(first["n"].to_pylist()) == {2}
