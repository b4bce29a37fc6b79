"""What every planner promises, whoever wrote it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.problems import problems
from tests.support.brute_force import brute_force
from trimtab.errors import BalanceError
from trimtab.planning import dlb, flux
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.planners import PLANNERS, drain_then_balance
from trimtab_lab.planners.fugu import make_room, release
from trimtab_lab.workloads.clusters import shrinking_cluster, synthetic_cluster

ALL: dict[str, Planner] = {
    **{name: registered.planner for name, registered in PLANNERS.items() if name != "paper_milp"},  # it takes long
    "dlb light": partial(dlb, policy="light", theta=0.0),
    "make_room": make_room,
    "release": release,
    "drain_then_balance": partial(drain_then_balance, balance=flux),
}
SOLVERS = ("milp", "albic")
"""Planners that search: a tenth of a second each even for a few units."""
QUICK = tuple(name for name in ALL if name not in SOLVERS)
NEVER_WORSE = ("flux", "milp", "first_fit")
"""Planners that promise not to raise the load distance of a placement whose units all live on open nodes."""

every_planner = pytest.mark.parametrize("name", ALL)


def plan_of(name: str, problem: Problem) -> Plan:
    """A plan, checked for everything that holds for all of them."""
    plan = ALL[name](problem)
    assert problem.faults(plan.owner) == []
    assert plan.owner.dtype == np.int32
    assert plan.moves.tolist() == problem.moved(plan.owner).tolist()
    assert plan.load_distance == problem.load_distance(plan.owner)
    assert 0 <= plan.lower_bound <= plan.load_distance
    assert plan.seconds >= 0
    return plan


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=40)
@given(data=st.data())
def test_every_problem_gets_a_faultless_plan_and_the_same_one_again(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(most_nodes=5, most_units=12))
    assert plan_of(name, problem).owner.tolist() == plan_of(name, problem).owner.tolist()


@pytest.mark.parametrize("name", SOLVERS)
@settings(max_examples=10)
@given(data=st.data())
def test_solvers_too_plan_without_fault_and_the_same_again(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(most_nodes=5, most_units=12))
    assert plan_of(name, problem).owner.tolist() == plan_of(name, problem).owner.tolist()


@every_planner
@settings(max_examples=20)
@given(data=st.data())
def test_nothing_beats_trying_every_placement(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(most_nodes=4, most_units=6))
    best = brute_force(problem)
    plan = plan_of(name, problem)
    assert plan.load_distance >= best.load_distance - 1e-6
    assert plan.lower_bound <= best.load_distance + 1e-6


@settings(max_examples=50)
@given(problem=problems())
def test_milp_finds_the_best_placement_there_is(problem: Problem) -> None:
    best = brute_force(problem)
    plan = plan_of("milp", problem)
    assert plan.load_distance == pytest.approx(best.load_distance, abs=1e-6)


@pytest.mark.parametrize("name", NEVER_WORSE)
@settings(max_examples=20)
@given(data=st.data())
def test_planners_that_promise_so_never_raise_the_load_distance(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(closed=False, new_units=False))
    assert plan_of(name, problem).load_distance <= problem.load_distance(problem.homes) + 1e-6


@settings(max_examples=20)
@given(problem=problems(sides=False))
def test_lemma_1_no_unit_goes_from_a_node_that_stays_to_one_that_is_drained(problem: Problem) -> None:
    plan = plan_of("milp", problem)
    assert problem.open_nodes[plan.owner[plan.moves]].all()


@settings(max_examples=30)
@given(problem=problems(sides=False, new_units=False))
def test_lemma_2_the_least_distance_leaves_no_load_on_drained_nodes(problem: Problem) -> None:
    # With units that can't be divided it holds where the least distance is none at all, as in the paper's proof.
    level = perfectly_level(problem)
    plan = plan_of("milp", level)
    assert plan.load_distance == pytest.approx(0, abs=1e-6)
    assert level.node_loads(plan.owner)[~level.open_nodes].sum() == pytest.approx(0, abs=1e-6)


def perfectly_level(problem: Problem) -> Problem:
    """The same nodes and homes, with loads that fill each open node to 50 % in some placement; no budget."""
    places = np.flatnonzero(problem.open_nodes)
    share = np.arange(problem.units) % len(places)
    members = np.bincount(share, minlength=len(places))
    open_nodes = np.zeros(problem.nodes, dtype=bool)
    open_nodes[places[members > 0]] = True
    loads = problem.strength[places[share]] / 2 / members[share]
    capacities = np.where(open_nodes | ~problem.open_nodes, problem.strength, 0.0)
    if not open_nodes.any():
        return replace(problem, max_moves=None, max_cost=None)
    return Problem(loads, problem.homes, capacities, draining=problem.draining)


@every_planner
def test_no_units(name: str) -> None:
    plan = plan_of(name, Problem(np.zeros(0), np.zeros(0), [1.0, 2.0]))
    assert len(plan.owner) == len(plan.moves) == 0
    assert plan.load_distance == plan.rstd == plan.migration_cost == 0.0


@every_planner
@pytest.mark.parametrize("home", [NEW, 0, 1])
def test_one_unit(name: str, home: int) -> None:
    plan_of(name, Problem([3.0], [home], [10.0, 10.0], max_moves=1))


@every_planner
def test_more_nodes_than_units(name: str) -> None:
    problem = Problem([3.0, 2.0], [NEW, 4], np.full(20, 10.0))
    plan_of(name, problem)


@every_planner
def test_units_of_no_load(name: str) -> None:
    plan_of(name, Problem(np.zeros(6), [0, 0, 0, NEW, 1, 2], np.ones(4), draining=[False, True, False, False]))


@every_planner
def test_a_node_without_capacity_gets_nothing(name: str) -> None:
    problem = Problem(np.arange(1.0, 9.0), [0, 0, 0, 0, 0, 0, 2, NEW], [50.0, 0.0, 50.0])
    assert 1 not in plan_of(name, problem).owner


@every_planner
def test_units_on_a_node_without_capacity_may_stay_or_leave(name: str) -> None:
    problem = Problem([1.0, 2.0, 3.0], [1, 1, 0], [50.0, 0.0, 50.0], max_moves=1)
    plan_of(name, problem)


@every_planner
def test_loads_that_can_be_made_exactly_level(name: str) -> None:
    loads, homes = [2.0, 1.0, 2.0, 0.0, 0.0, 2.0], [2, 2, 2, 0, NEW, NEW]
    plan_of(name, Problem(loads, homes, [10.0, 4.0, 10.0], draining=[False, False, True], max_moves=3))


def test_where_everything_drains_there_is_no_problem_to_plan() -> None:
    with pytest.raises(BalanceError, match=r"plan\.nodes"):
        Problem([1.0], [0], [1.0, 1.0], draining=[True, True])


@every_planner
@pytest.mark.parametrize("moves", [0, 1, 3, 10])
def test_a_budget_in_moves_is_kept(name: str, moves: int) -> None:
    problem = synthetic_cluster(6, 60, varies=60.0, seed=moves, max_moves=moves, one_to_one=50.0, operators=4)
    assert len(plan_of(name, problem).moves) <= moves


@every_planner
@pytest.mark.parametrize("cost", [0.0, 0.3, 2.5])
def test_a_budget_in_cost_is_kept(name: str, cost: float) -> None:
    # Tenths: sums that binary fractions miss by a little.
    costs = np.tile([0.1, 0.2, 0.7], 20)
    problem = replace(synthetic_cluster(6, 60, varies=60.0, seed=1), move_costs=costs, max_moves=None, max_cost=cost)
    assert plan_of(name, problem).migration_cost <= cost * (1 + 1e-9)


@every_planner
def test_no_unit_is_put_on_a_draining_node(name: str) -> None:
    problem = shrinking_cluster(8, 80, remove=3, overloaded=2, seed=1, max_moves=15)
    problem = replace(problem, homes=np.where(np.arange(80) % 10 == 0, NEW, problem.homes))
    plan = plan_of(name, problem)
    changed = plan.owner != problem.homes
    assert not problem.draining[plan.owner[changed]].any()


@every_planner
def test_side_resources_are_never_filled_past_capacity(name: str) -> None:
    rng = np.random.default_rng(1)
    loads = np.column_stack([rng.uniform(4, 20, 16), rng.uniform(2, 12, 16)])
    homes = np.r_[np.zeros(8), np.ones(4), np.full(4, NEW)]
    capacities = np.array([[100.0, 200.0], [100.0, 60.0], [100.0, 40.0], [100.0, 20.0]])
    problem = Problem(loads, homes, capacities, max_moves=10)
    assert problem.bottleneck == 0
    plan_of(name, problem)


@every_planner
def test_a_new_unit_that_fits_nowhere_is_an_error(name: str) -> None:
    problem = Problem([[9.0, 3.0], [1.0, 1.0]], [NEW, 0], [[5.0, 2.0], [5.0, 2.0], [0.0, 9.0]])
    with pytest.raises(BalanceError, match=r"plan\.room"):
        ALL[name](problem)


@every_planner
def test_a_plan_and_its_problem_survive_pickling(name: str) -> None:
    problem = synthetic_cluster(3, 12, varies=40.0, seed=1, max_moves=5, one_to_one=50.0, operators=3)
    twin = pickle.loads(pickle.dumps(problem))
    plan = plan_of(name, problem)
    assert pickle.loads(pickle.dumps(plan)).owner.tolist() == plan.owner.tolist()
    assert ALL[name](twin).owner.tolist() == plan.owner.tolist()


@every_planner
def test_planning_leaves_the_problem_as_it_was(name: str) -> None:
    problem = shrinking_cluster(6, 60, remove=1, overloaded=1, seed=1, max_moves=10)
    before = pickle.loads(pickle.dumps(problem))
    plan_of(name, problem)
    for column in ("loads", "homes", "capacities", "draining", "move_costs", "operators"):
        assert np.array_equal(getattr(problem, column), getattr(before, column))


def test_the_registry_has_every_planner_under_its_own_name() -> None:
    assert [getattr(each.planner, "__name__", "") for each in PLANNERS.values()] == list(PLANNERS)
