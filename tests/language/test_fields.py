"""Fields of structs by names with dots."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import trimtab
from trimtab.errors import QueryError

ROWS = pa.table(
    {
        "k": [1, 1, 1],
        "city": ["here", "there", "nowhere"],
        "ts": [dt.datetime(2026, 1, day) for day in (1, 2, 3)],
        "place": [{"city": "A", "at": {"lat": 1}}, {"city": None, "at": {"lat": 5}}, None],
        "b": [{"x": 1}, {"x": 2}, {"x": 3}],
    }
)
MATCH = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {})"


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT place.city FROM t", [{"city": "A"}, {"city": None}, {"city": None}]),
        ("SELECT t.place.city AS c, city FROM t WHERE place.at.lat > 1", [{"c": None, "city": "there"}]),
        ("SELECT s.Place.AT.Lat AS lat FROM t AS s WHERE s.place.city = 'A'", [{"lat": 1}]),
        ("SELECT lat * 2 AS two FROM (SELECT place.at.lat FROM t) WHERE lat = 5", [{"two": 10}]),
        (
            "SELECT place.city AS c, COUNT(*) AS n FROM t WHERE place.city IS NOT NULL"
            " GROUP BY place.city, window(ts, '1 day')",
            [{"c": "A", "n": 1}],
        ),
        (
            MATCH.format("MEASURES A.place.city AS c, LAST(B.place.at.lat) AS lat PATTERN (A B)"
                         " DEFINE B AS B.place.at.lat > A.place.at.lat"),
            [{"k": 1, "c": "A", "lat": 5}],
        ),
        (MATCH.format("MEASURES B.city AS c, place.at.lat AS lat PATTERN (B) DEFINE B AS place.at.lat = 5"),
         [{"k": 1, "c": "there", "lat": 5}]),
    ],
)  # fmt: skip
def test_a_field_is_named_with_dots(sql: str, answer: list[dict[str, Any]]) -> None:
    assert trimtab.evaluate(sql, {"t": ROWS}).to_pylist() == answer


def test_a_variable_of_the_pattern_comes_before_a_column_of_that_name() -> None:
    sql = MATCH.format("MEASURES B.city AS c, B.b.x AS x PATTERN (B) DEFINE B AS B.b.x = 2")
    assert trimtab.evaluate(sql, {"t": ROWS}).to_pylist() == [{"k": 1, "c": "there", "x": 2}]


@pytest.mark.parametrize("name", ["plaze.city", "city.place", "place.town"])
def test_what_is_no_field_is_a_mistake(name: str) -> None:
    with pytest.raises(QueryError):
        trimtab.evaluate(f"SELECT {name} FROM t", {"t": ROWS})
