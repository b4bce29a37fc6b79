from __future__ import annotations

import json
import random

import pytest

from trimtab.control.cost_estimate import CostEstimate


def after(estimate: CostEstimate, fixed: float, a_row: float, batches: int, *, noise: float = 0.05) -> CostEstimate:
    dice = random.Random(1)
    for _ in range(batches):
        rows = dice.randrange(50_000, 400_000)
        estimate = estimate.updated(rows, (fixed + a_row * rows) * dice.gauss(1.0, noise))
    return estimate


def test_both_costs_are_found_through_noise() -> None:
    found = after(CostEstimate.of(10_000, 0.21), 0.2, 1e-6, 40)
    assert found.fixed == pytest.approx(0.2, rel=0.3)
    assert found.a_row == pytest.approx(1e-6, rel=0.2)
    assert found.a_row < found.a_row_at_most < 2 * found.a_row


def test_one_outlier_changes_little_and_two_in_a_row_are_a_change() -> None:
    known = after(CostEstimate.of(10_000, 0.21), 0.2, 1e-6, 40)
    expected = known.fixed + known.a_row * 300_000
    once = known.updated(300_000, 10 * expected)
    assert once.outlier == 1
    assert once.fixed + once.a_row * 300_000 < 1.5 * expected
    twice = once.updated(300_000, 10 * expected)
    assert twice.fixed + twice.a_row * 300_000 > 5 * expected
    assert once.updated(300_000, expected).outlier == 0
    assert expected < known.believed(300_000, 10 * expected) < 1.4 * expected
    assert once.believed(300_000, 10 * expected) == 10 * expected
    assert known.believed(300_000, 0.1 * expected) == 0.1 * expected, "what is quick is no disturbance"


def test_what_has_changed_is_found_again() -> None:
    known = after(CostEstimate.of(10_000, 0.21), 0.2, 1e-6, 40)
    assert after(known, 0.1, 4e-6, 20).a_row == pytest.approx(4e-6, rel=0.2)


def test_a_long_steady_time_makes_it_neither_certain_nor_wild() -> None:
    known = after(CostEstimate.of(10_000, 0.21), 0.2, 1e-6, 40)
    for _ in range(5_000):
        known = known.updated(300_000, 0.5)
    assert known.fixed + known.a_row * 300_000 == pytest.approx(0.5, rel=0.01)
    assert 0.0 <= known.variances[2] <= (0.5 * 0.5 / 300_000) ** 2
    assert known.updated(300_000, 0.7).updated(300_000, 0.7).a_row > 1.05 * known.a_row


def test_costs_are_never_negative() -> None:
    known = CostEstimate.of(1_000, 1.0)
    for rows, cost in ((2_000, 0.1), (100_000, 0.01), (10, 5.0), (1_000_000, 0.001)) * 5:
        known = known.updated(rows, cost)
        assert min(known.fixed, known.a_row, known.variances[0], known.variances[2]) >= 0.0


def test_it_survives_being_json() -> None:
    known = after(CostEstimate.of(10_000, 0.21), 0.2, 1e-6, 5)
    assert CostEstimate.from_json(json.loads(json.dumps(known.as_json()))) == known
