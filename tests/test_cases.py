"""Every case of `tests/cases/*.case`; how they are written is described in `tests.support.cases`.

A case is run as a whole and, wherever its rows can be cut, a row per batch and cut at random.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cases import Case, parse_file, parse_type, parse_value
from trimtab import TrimtabError, evaluate
from trimtab.errors import InputError

FOLDER = pathlib.Path(__file__).with_name("cases")
CASES = [case for path in sorted(FOLDER.glob("*.case")) for case in parse_file(path)]


def test_every_title_is_there_once() -> None:
    titles = [case.title for case in CASES]
    assert len(titles) > 100
    assert sorted(titles) == sorted(set(titles))


def plain(value: object) -> object:
    """A value that compares: NaN is itself, and floats are as good as their first twelve digits."""
    if isinstance(value, float):
        return f"{value:.12g}" if value else "0"
    return [plain(item) for item in value] if isinstance(value, list) else value


def check(case: Case, **changes: Any) -> None:
    """Run the case and compare its answer."""
    found = evaluate(case.sql, case.tables, **{**case.known_options, **changes})
    names = [cell.split(" ", 1)[0] for cell in case.header]
    assert found.column_names == names
    for cell, type_ in zip(case.header, found.schema.types, strict=True):
        assert " " not in cell or parse_type(cell.split(" ", 1)[1]) == type_, f"{cell} is {type_}"
    wanted = [[plain(parse_value(v, t)) for v, t in zip(row, found.schema.types, strict=True)] for row in case.answer]
    rows = [[plain(value) for value in row.values()] for row in found.to_pylist()]
    order: Callable[[list[list[object]]], list[list[object]]] = list if case.is_set("ordered") else _sorted
    assert order(rows) == order(wanted)


def _sorted(rows: list[list[object]]) -> list[list[object]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_case(case: Case) -> None:
    if case.error is not None:
        with pytest.raises(TrimtabError) as caught:
            evaluate(case.sql, case.tables, **case.known_options)
        assert str(caught.value) == case.error
        return
    check(case)
    every_row = range(1, case.rows)
    if case.options.get("arrival") == "out of order":
        with pytest.raises(InputError) as out_of_order:
            check(case, cuts=every_row)
        assert out_of_order.value.code == "input.out-of-order"
    elif not {"event_time", "cuts"} <= set(case.options):  # there the cuts decide which rows are late
        check(case, cuts=every_row)
        dice = random.Random(case.title)
        for _ in range(2):
            check(case, cuts=sorted(dice.randrange(case.rows + 1) for _ in range(2)))
