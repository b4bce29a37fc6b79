"""The scalar functions in three-valued logic."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from trimtab.engine.match import scalars
from trimtab.engine.match.kernels.emit_calls import CALLS

NAN, INF = math.nan, math.inf
DAY = datetime.date(2026, 1, 31)
NOON = datetime.datetime(2026, 1, 31, 12)
HOUR = datetime.timedelta(hours=1)


def test_every_function_has_a_compiled_version() -> None:
    assert set(scalars.SCALARS) == set(CALLS)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("+", (1, 2), 3),
        ("+", (Decimal("0.10"), 2), Decimal("2.10")),
        ("+", (Decimal("0.5"), 0.25), 0.75),
        ("+", (Decimal(10) ** 37, Decimal("0.1")), Decimal("1" + "0" * 37 + ".1")),
        ("+", (NOON, HOUR), datetime.datetime(2026, 1, 31, 13)),
        ("+", (DAY, 1), datetime.date(2026, 2, 1)),
        ("-", (NOON, NOON - HOUR), HOUR),
        ("-", (datetime.date(2026, 2, 2), DAY), 2),
        ("-", (NOON, DAY), 12 * HOUR),
        ("*", (2, 1.5), 3.0),
        ("/", (1, 2), 0.5),
        ("/", (Decimal(1), Decimal(4)), 0.25),
        ("/", (1, 0), None),
        ("/", (1.0, -0.0), None),
        ("div", (7, 2), 3),
        ("div", (-7, 2), -3),
        ("div", (-7.5, 2), -3),
        ("div", (Decimal("-7.5"), 2), -3),
        ("div", (7, 0), None),
        ("div", (NAN, 2), None),
        ("%", (-7, 2), -1),
        ("%", (7, -2), 1),
        ("%", (-7.5, 2.0), -1.5),
        ("%", (Decimal("-7.5"), 2), Decimal("-1.5")),
        ("%", (7, 0), None),
        ("%", (INF, 2), NAN),
        ("neg", (Decimal("0.1"),), Decimal("-0.1")),
        ("abs", (-3,), 3),
        ("sqrt", (-1,), NAN),
        ("exp", (1e6,), INF),
        ("ln", (0,), None),
        ("ln", (1,), 0.0),
        ("power", (2, 10), 1024.0),
        ("power", (0.0, -1), INF),
        ("power", (-8, 1 / 3), NAN),
        ("power", (-10, 999), -INF),
        ("floor", (-1.5,), -2),
        ("ceil", (Decimal("1.2"),), 2),
        ("floor", (INF,), 2**63 - 1),
        ("to_int", (-1.9,), -1),
        ("to_int", (NAN,), 0),
        ("to_int", (1e30,), 2**63 - 1),
        ("to_float", (Decimal("0.5"),), 0.5),
    ],
)
def test_arithmetic(function: str, args: tuple[object, ...], expected: Any) -> None:
    value = scalars.SCALARS[function](*args)
    assert type(value) is type(expected)
    assert scalars.identity(value) == scalars.identity(expected)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("=", (1, 1.0), True),
        ("=", (Decimal("0.1"), 0.1), True),
        ("=", (None, None), None),
        ("<=>", (None, None), True),
        ("<=>", (None, 1), False),
        ("=", (NAN, NAN), True),
        (">", (NAN, INF), True),
        ("<", (NAN, INF), False),
        ("<", ("a", "b"), True),
        (">", (NOON, DAY), True),
        ("<>", (1, None), None),
        ("and", (None, False), False),
        ("and", (None, True), None),
        ("and", (True, True, True), True),
        ("or", (None, True), True),
        ("or", (None, False), None),
        ("not", (None,), None),
        ("not", (False,), True),
        ("is_null", (None,), True),
        ("is_null", (0,), False),
        ("in", (1, 2, 1), True),
        ("in", (1, 2, None), None),
        ("in", (None, 1), None),
        ("in", (1, 2), False),
        ("coalesce", (None, 0, 1), 0),
        ("nullif", (1, 1), None),
        ("nullif", (1, None), 1),
        ("nullif", (None, 1), None),
        ("case", (None, 1, True, 2, 3), 2),
        ("case", (False, 1, 3), 3),
        ("case", (False, 1), None),
        ("greatest", (1, None, 2), 2),
        ("greatest", (1.0, NAN), NAN),
        ("least", (None, None), None),
        ("least", (1.0, NAN), 1.0),
    ],
)
def test_logic_and_comparison(function: str, args: tuple[object, ...], expected: Any) -> None:
    assert scalars.identity(scalars.SCALARS[function](*args)) == scalars.identity(expected)


@pytest.mark.parametrize("function", sorted(scalars.SCALARS.keys() - {"and", "or", "case", "in", "nullif"}))
def test_no_function_of_nulls_fails(function: str) -> None:
    count = 1 if function in {"neg", "abs", "not", "is_null", "sqrt", "exp", "ln"} else 2
    count = 1 if function in {"floor", "ceil", "to_float", "to_int"} else count
    expected = function in {"is_null", "<=>"} or None
    assert scalars.SCALARS[function](*(None,) * count) is expected
