import math
import pickle

import numpy as np
import pytest

from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem

PROBLEM = Problem([30.0, 20.0, 10.0], [0, 0, 1], [100.0, 100.0], move_costs=[3.0, 2.0, 1.0])


def test_a_plan_measures_its_placement() -> None:
    plan = Plan.of(PROBLEM, [0, 0, 0], "by hand", seconds=0.5)
    assert plan.moves.tolist() == [2]
    assert (plan.load_distance, plan.rstd, plan.migration_cost, plan.collocation) == (30.0, 100.0, 1.0, 0.0)
    assert (plan.planner, plan.seconds) == ("by hand", 0.5)


def test_the_gap_is_what_lies_above_the_bound() -> None:
    assert Plan.of(PROBLEM, [0, 0, 0], "x", lower_bound=20.0).gap == pytest.approx(0.5)
    assert Plan.of(PROBLEM, [0, 0, 0], "x").gap == math.inf
    assert Plan.of(PROBLEM, [0, 1, 1], "x").gap == 0.0


def test_a_bound_is_never_above_what_was_reached() -> None:
    plan = Plan.of(PROBLEM, [0, 1, 1], "x", lower_bound=1e-12)
    assert plan.lower_bound == 0.0
    assert plan.gap == 0.0


def test_a_plan_survives_pickling() -> None:
    plan = Plan.of(PROBLEM, [0, 1, 1], "x", seconds=1.0)
    twin = pickle.loads(pickle.dumps(plan))
    assert np.array_equal(twin.owner, plan.owner)
    assert (twin.load_distance, twin.gap, twin.seconds) == (plan.load_distance, plan.gap, plan.seconds)
