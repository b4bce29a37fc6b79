from dataclasses import replace

import numpy as np
import pytest

from trimtab.errors import BalanceError
from trimtab.planning.problem import NEW
from trimtab_lab.workloads.clusters import drift, shrinking_cluster, synthetic_cluster


@pytest.mark.parametrize("varies", [10.0, 50.0, 80.0])
def test_a_fifth_of_the_nodes_is_shifted_half_up_and_half_down(varies: float) -> None:
    even = synthetic_cluster(20, 400, varies=0.0, seed=4)
    shifted = synthetic_cluster(20, 400, varies=varies, seed=4)
    points = shifted.utilisation(shifted.homes) - even.utilisation(even.homes)
    assert np.sort(points)[[0, 1, 18, 19]].tolist() == pytest.approx([-varies / 2] * 2 + [varies / 2] * 2)
    assert np.abs(np.sort(points)[2:18]).max() < 1e-9
    changed = np.bincount(even.homes, weights=even.work != shifted.work, minlength=20)
    assert ((changed == 0) | (changed >= 10)).all()
    assert shifted.work.min() > 0


def test_units_are_even_but_for_five_percent() -> None:
    problem = synthetic_cluster(20, 400, varies=0.0, seed=1, mean_load=50.0)
    assert np.bincount(problem.homes).tolist() == [20] * 20
    assert 0.95 * 2.5 <= problem.work.min() < problem.work.max() <= 1.05 * 2.5
    assert np.bincount(problem.operators).tolist() == [40] * 10


def test_the_same_seed_gives_the_same_cluster() -> None:
    first, again, other = (synthetic_cluster(6, 60, varies=20.0, seed=seed, one_to_one=30.0) for seed in (1, 1, 2))
    assert np.array_equal(first.work, again.work)
    assert first.traffic is not None
    assert again.traffic is not None
    assert abs(first.traffic - again.traffic).sum() == 0
    assert not np.array_equal(first.work, other.work)


@pytest.mark.parametrize("percent", [0.0, 50.0, 100.0])
def test_the_percentage_of_units_send_to_one_that_receives_from_no_other(percent: float) -> None:
    problem = synthetic_cluster(20, 400, varies=0.0, seed=1, one_to_one=percent)
    assert problem.traffic is not None
    receivers, senders = (problem.traffic > 0).sum(axis=1), (problem.traffic > 0).sum(axis=0)
    assert np.count_nonzero(receivers[:360] == 1) == round(360 * percent / 100)
    assert np.count_nonzero(senders[40:] == 1) == round(360 * percent / 100)
    assert receivers[360:].sum() == 0
    # All of the rest's traffic goes evenly to the rest of the next operator.
    assert set(receivers[:360]) <= {1, 40 - round(40 * percent / 100)}
    assert problem.traffic.sum(axis=1)[:360] == pytest.approx(np.ones(360), abs=0.05 + 1e-9)


def test_operators_of_unequal_size_and_none_at_all() -> None:
    assert synthetic_cluster(3, 7, varies=0.0, seed=1, operators=3, one_to_one=100.0).traffic is not None
    assert synthetic_cluster(3, 0, varies=10.0, seed=1, one_to_one=50.0).units == 0
    lonely = synthetic_cluster(3, 7, varies=0.0, seed=1, operators=1, one_to_one=50.0).traffic
    assert lonely is not None
    assert lonely.nnz == 0


def test_drift_changes_a_fifth_of_the_nodes_by_a_few_percent() -> None:
    problem = synthetic_cluster(20, 400, varies=0.0, seed=1)
    later = drift(problem, seed=3, percent=2.0)
    ratio = later.work / problem.work
    assert len(np.unique(problem.homes[np.abs(ratio - 1) > 1e-12])) == 4
    assert np.abs(ratio - 1).max() <= 0.02
    lost = replace(problem, homes=np.full(400, NEW, dtype=np.int32))
    assert np.array_equal(drift(lost, seed=3).work, problem.work)


def test_a_shrinking_cluster_drains_some_nodes_and_overloads_others() -> None:
    problem = shrinking_cluster(60, 1200, remove=10, overloaded=5, seed=2)
    levels = problem.utilisation(problem.homes)
    assert problem.draining.sum() == 10
    assert levels[problem.draining].max() < 60
    assert np.count_nonzero(np.abs(levels - 100) < 1e-6) == 5


@pytest.mark.parametrize(
    "options", [{"nodes": 0}, {"varies": -1.0}, {"varies": 90.0}, {"operators": 0}, {"one_to_one": 101.0}]
)
def test_invalid_options_are_refused(options: dict[str, float]) -> None:
    arguments = {"nodes": 4, "units": 8, "varies": 10.0, "seed": 1} | options
    with pytest.raises(BalanceError, match=r"plan\.synthetic"):
        synthetic_cluster(**arguments)  # type: ignore[arg-type]


def test_more_nodes_to_remove_than_there_are_is_refused() -> None:
    with pytest.raises(BalanceError, match=r"plan\.synthetic"):
        shrinking_cluster(4, 8, remove=3, overloaded=2, seed=1)
