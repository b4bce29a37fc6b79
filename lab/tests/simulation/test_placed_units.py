import numpy as np
import pytest
from scipy.sparse import csr_array

from trimtab.errors import BalanceError
from trimtab.planning.adaptation import ScalingRule
from trimtab.planning.dlb import dlb
from trimtab.planning.flux import flux
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Float64Array, Problem
from trimtab_lab.simulation.placed_units import Job, PlacedUnits, node_drift, run


def pairs(count: int, amount: float = 10.0) -> csr_array:
    """Unit 2i sends to unit 2i + 1."""
    senders = 2 * np.arange(count)
    return csr_array((np.full(count, amount), (senders, senders + 1)), shape=(2 * count, 2 * count))


def stay(problem: Problem) -> Plan:
    return Plan.of(problem, problem.homes, "stay")


def gather(problem: Problem) -> Plan:
    """Every receiver goes to its sender's node."""
    return Plan.of(problem, problem.homes.reshape(-1, 2)[:, :1].repeat(2, axis=1).ravel(), "gather")


TALKING = Job(np.full(8, 5.0), pairs(4), state_bytes=np.full(8, 3.0), serialise_load=0.3, deserialise_load=0.2)


def test_traffic_between_nodes_loads_the_sender_and_the_receiver() -> None:
    cluster = PlacedUnits(TALKING, homes=[0, 1, 0, 0, 1, 1, 1, 0], capacities=[100.0, 100.0])
    assert cluster.unit_loads(cluster.owners).tolist() == [8.0, 7.0, 5.0, 5.0, 5.0, 5.0, 8.0, 7.0]


def test_gathering_units_that_talk_lowers_the_load_index() -> None:
    cluster = PlacedUnits(TALKING, homes=[0, 1, 1, 0] * 2, capacities=[100.0, 100.0])
    start, after = run(cluster, gather, periods=1)
    assert (start.collocation, after.collocation) == (0.0, 100.0)
    assert (start.load_index, start.mean_load) == (100.0, 30.0)
    assert after.mean_load == 20.0
    assert after.load_index == pytest.approx(200 / 3)
    assert after.moves == 4


def test_moves_cost_load_and_a_pause_in_their_period_only() -> None:
    job = Job(np.full(8, 5.0), pairs(4), np.full(8, 3.0), move_load=1.0, pause_s=2.0, pause_s_per_byte=0.5)
    cluster = PlacedUnits(job, homes=[0, 1, 1, 0] * 2, capacities=[100.0, 100.0])
    start, moving, after = run(cluster, gather, periods=2)
    assert moving.mean_load - start.mean_load == 4 * 3 * 2 * 1.0 / 200 * 100
    assert moving.pause_s == 4 * 2.0 + 12 * 0.5
    assert moving.load_distance == after.load_distance
    assert (after.mean_load, after.moves, after.pause_s) == (start.mean_load, 0, 0.0)


def test_drift_is_seeded_and_changes_a_fifth_of_the_nodes() -> None:
    def works(seed: int) -> Float64Array:
        cluster = PlacedUnits(Job(np.ones(100)), np.arange(100) % 10, [100.0] * 10, drift=node_drift(10.0), seed=seed)
        cluster.step(stay)
        return cluster.work

    assert np.array_equal(works(1), works(1))
    assert not np.array_equal(works(1), works(2))
    assert np.count_nonzero(works(1) != 1.0) == 20
    assert np.abs(works(1) - 1).max() <= 0.1


def test_a_planner_keeps_a_drifting_cluster_level_that_staying_does_not() -> None:
    def last(planner: object) -> float:
        rng = np.random.default_rng(1)
        job = Job(rng.uniform(1, 3, 200))
        cluster = PlacedUnits(job, np.arange(200) % 10, [100.0] * 10, max_moves=8, drift=node_drift(20.0), seed=3)
        return run(cluster, planner, periods=40)[-1].load_distance  # type: ignore[arg-type]

    assert last(flux) < 2.5
    assert last(stay) > 5


def test_hosts_that_come_are_used_and_hosts_that_drain_are_emptied_and_go() -> None:
    cluster = PlacedUnits(Job(np.ones(60)), np.arange(60) % 3, [100.0] * 3, max_moves=10)
    assert cluster.add_nodes([100.0, 50.0]) == (3, 4)
    for _ in range(6):
        full = cluster.step(flux)
    assert full.nodes == 5
    assert full.load_distance < 2
    cluster.drain_nodes([0])
    periods = [cluster.step(flux) for _ in range(5)]
    assert (periods[0].nodes, periods[0].draining) == (5, 1)
    assert (periods[-1].nodes, periods[-1].draining) == (4, 0)
    assert all(period.moves <= 10 for period in periods)
    assert 0 not in cluster.owners


def test_units_of_a_failed_host_find_a_new_one_at_once_whatever_the_budget() -> None:
    cluster = PlacedUnits(Job(np.ones(30), pause_s=2.0), np.arange(30) % 3, [100.0] * 3, max_moves=0)
    cluster.fail_nodes([1])
    period = cluster.step(flux)
    assert (period.nodes, period.moves, period.pause_s) == (2, 0, 20.0)
    assert sorted(np.unique(cluster.owners, return_counts=True)[1]) == [15, 15]


def test_a_rule_grows_and_shrinks_the_cluster_with_its_load() -> None:
    day = iter([1.0, 3.0, 1.0, 1.0, 1.0, 1 / 3, 1.0, 1.0, 1.0])
    rule = ScalingRule(target=60, low=40, high=80, cool_down_periods=1, node_capacity=50.0)
    cluster = PlacedUnits(
        Job(np.ones(100)), np.arange(100) % 2, [100.0] * 2, drift=lambda work, *_: work * next(day), rule=rule
    )
    sizes = [period.nodes for period in run(cluster, dlb, periods=9)]
    assert sizes[:3] == [2, 2, 8]
    assert sizes[-1] <= 3
    assert max(sizes) == 8


def test_what_makes_no_sense_is_refused() -> None:
    cluster = PlacedUnits(Job(np.ones(4)), [0, 1, 0, 1], [10.0, 10.0])
    with pytest.raises(BalanceError, match=r"simulate\.nodes"):
        cluster.drain_nodes([7])
    with pytest.raises(BalanceError, match=r"simulate\.nodes"):
        cluster.fail_nodes([2])
    with pytest.raises(BalanceError, match=r"simulate\.periods"):
        run(cluster, stay, periods=-1)
