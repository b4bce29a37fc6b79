"""The benchmarks still run, on very few rows, and still find the same matches as what they are compared with."""

from __future__ import annotations

import json

import pytest

from benchmarks import blowups, cuts, planning, report, routing, run, shapes, vshape
from benchmarks.results import Result, Table, as_json, from_json
from trimtab_lab.routers import ROUTERS

pytestmark = pytest.mark.papers


def check(result: Result) -> None:
    assert from_json(json.loads(json.dumps(as_json(result)))) == result
    assert all(len(row) == len(table.columns) for table in result.tables for row in table.rows)
    assert result.title in report.section(result)


@pytest.mark.slow  # compiles the kernel
def test_the_v_shape_is_the_same_by_hand_and_on_bytewax() -> None:
    pytest.importorskip("bytewax", reason="it is in the extra `bench`")
    check(vshape.run(vshape.TINY))


def test_every_shape_finds_something() -> None:
    result = shapes.run(shapes.TINY)
    check(result)
    found = {str(row[0]): row[2] for table in result.tables for row in table.rows}
    assert len(found) == len(shapes.SHAPES)
    assert [name for name, rows in found.items() if rows == "0"] == []


@pytest.mark.slow  # compiles a kernel for each pattern
def test_the_patterns_that_blow_up_elsewhere_run() -> None:
    check(blowups.run(blowups.TINY))


@pytest.mark.slow  # compiles the kernel
def test_small_batches_run() -> None:
    check(cuts.run(cuts.TINY))


def test_every_router_is_measured_beside_its_plain_loop() -> None:
    result = routing.run(routing.TINY)
    check(result)
    assert all([row[0] for row in table.rows] == list(ROUTERS) for table in result.tables)


@pytest.mark.slow
def test_planners_are_measured_beside_each_other() -> None:
    check(planning.run(planning.TINY))


def test_a_bar_in_a_table_does_not_end_its_cell() -> None:
    assert report.text(Table(("p",), (("A | B",),))).splitlines()[-1] == r"| A \| B |"


def test_the_page_is_made_from_the_results() -> None:
    results = json.loads(report.RESULTS.read_text(encoding="utf-8"))
    assert list(results["benchmarks"]) == list(run.BENCHMARKS)
    assert report.PAGE.read_text(encoding="utf-8") == report.page(results)
