import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.problems import problems
from trimtab.errors import BalanceError
from trimtab.planning.dlb import Policy, dlb
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.workloads.clusters import synthetic_cluster


def plain_dlb(problem: Problem, policy: Policy, theta: float) -> Int32Array:
    """Algorithm 1 of the paper line by line, on problems whose nodes are all open and whose units all have a home."""
    owner = problem.homes.copy()
    score = problem.rstd(owner)
    while score > theta:
        levels = problem.utilisation(owner)
        engines = sorted(range(problem.nodes), key=lambda e: (-levels[e], e))
        emptiest, found = engines[-1], False
        for engine in engines:
            if levels[engine] <= levels[emptiest]:
                return owner
            keys = sorted(np.flatnonzero(owner == engine), key=lambda k: problem.work[k], reverse=policy == "heavy")
            for key in keys if policy == "heavy" else keys[:1]:
                trial = owner.copy()
                trial[key] = emptiest
                if problem.rstd(trial) < score * (1 - 1e-12):
                    owner, found = trial, True
                    break
            if found:
                break
        if not found:
            return owner
        score = problem.rstd(owner)
    return owner


@given(
    problem=problems(sides=False, closed=False, new_units=False, budget=False, distinct_loads=True),
    policy=st.sampled_from(["heavy", "light"]),
    theta=st.sampled_from([0.0, 5.0, 15.0, 40.0]),
)
def test_the_compiled_algorithm_is_the_papers(problem: Problem, policy: Policy, theta: float) -> None:
    assert dlb(problem, policy=policy, theta=theta).owner.tolist() == plain_dlb(problem, policy, theta).tolist()


@given(problem=problems(closed=False, new_units=False), policy=st.sampled_from(["heavy", "light"]))
def test_the_deviation_never_grows(problem: Problem, policy: Policy) -> None:
    assert dlb(problem, policy=policy, theta=0.0).rstd <= problem.rstd(problem.homes) + 1e-9


def test_below_the_threshold_nothing_moves() -> None:
    problem = Problem([10.0, 11.0, 1.0], [0, 1, 1], [100.0, 100.0])
    assert 5 < problem.rstd(problem.homes) < 15
    assert dlb(problem).moves.tolist() == []
    assert dlb(problem, theta=5.0).moves.tolist() == [2]


@pytest.mark.parametrize("seed", range(5))
def test_heavy_moves_fewer_units_than_light_and_both_get_below_the_threshold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loads = 1.0 / np.arange(1, 4097) ** 0.5
    problem = Problem(loads, rng.integers(0, 5, 4096) * rng.integers(0, 2, 4096), [100.0] * 5)
    heavy, light = dlb(problem), dlb(problem, policy="light")
    assert problem.rstd(problem.homes) > 50
    assert heavy.rstd <= 15
    assert light.rstd <= 15
    assert 2 * len(heavy.moves) < len(light.moves)


def test_units_of_no_load_are_left_alone() -> None:
    problem = Problem([0.0, 5.0, 1.0, 2.0], [0, 0, 0, 1], [10.0, 10.0])
    assert dlb(problem, policy="light").moves.tolist() == [2]


def test_a_node_without_room_is_passed_over() -> None:
    problem = Problem(
        [[5.0, 1.0], [5.0, 1.0], [5.0, 1.0], [1.0, 2.0], [2.0, 0.0]],
        [0, 0, 0, 1, 2],
        [[10.0, 9.0], [10.0, 2.0], [10.0, 9.0]],
    )
    assert dlb(problem).owner.tolist() == [2, 0, 0, 1, 2]


def test_draining_nodes_are_emptied_first() -> None:
    problem = synthetic_cluster(10, 100, varies=60.0, seed=1, max_moves=10)
    draining = np.arange(10) == 3
    problem = Problem(problem.work, problem.homes, problem.strength, draining=draining, max_moves=10)
    heavy, light = dlb(problem), dlb(problem, policy="light")
    assert set(problem.homes[heavy.moves]) == set(problem.homes[light.moves]) == {3}


def test_what_makes_no_sense_is_refused() -> None:
    problem = Problem([1.0], [0], [1.0])
    with pytest.raises(BalanceError, match=r"plan\.policy"):
        dlb(problem, policy="middling")  # type: ignore[arg-type]
    with pytest.raises(BalanceError, match=r"plan\.theta"):
        dlb(problem, theta=float("nan"))


@pytest.mark.parametrize(("policy", "moved"), [("heavy", 0), ("light", 1)])
def test_a_unit_of_next_to_no_load_keeps_no_other_from_moving(policy: Policy, moved: int) -> None:
    faded = 1e-14  # what is left in an average of a key that was last seen long ago
    problem = Problem(loads=[4.0, 3.0, faded, 1.0], homes=[0, 0, 0, 1], capacities=[10.0, 10.0])
    assert dlb(problem, policy=policy, theta=30.0).moves.tolist() == [moved]
