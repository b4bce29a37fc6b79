from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

from trimtab.errors import BalanceError
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, Problem
from trimtab_lab.planners.first_fit import first_fit
from trimtab_lab.planners.fugu import fugu
from trimtab_lab.simulation.host_latency import BUSIEST, process
from trimtab_lab.simulation.hosts_and_queries import Course, Hosts, run_day
from trimtab_lab.simulation.query_day import QueryDay, QueryMix, query_day, varying_rate

DAY = query_day(750.0, seed=3, periods=120)
WHOLE_DAY = query_day(750.0, seed=3)
FIRST_FIT = partial(first_fit, threshold=0.85)


def watched(planner: Callable[[Problem], Plan], seen: list[tuple[Problem, Plan]]) -> Callable[[Problem], Plan]:
    def plan(problem: Problem) -> Plan:
        seen.append((problem, planner(problem)))
        return seen[-1][1]

    return plan


def one_query(rate_per_s: float, *, periods: int = 20, event_s: float = 1e-3) -> QueryDay:
    """A single query that runs from the first period to the last."""
    day = query_day(rate_per_s, seed=1, periods=periods, mix=QueryMix(peak=1, night=1))
    return replace(
        day,
        first=np.array([0]),
        last=np.array([periods]),
        shares=np.array([0.5]),
        windows_s=np.array([100.0]),
        event_s=np.full((1, 4), event_s),
    )


def process_plain(
    owner: np.ndarray,
    costs: np.ndarray,
    service_s: np.ndarray,
    rates: np.ndarray,
    noise: np.ndarray,
    hop_s: float,
    step_s: float,
    pauses_s: np.ndarray,
    backlog_s: np.ndarray,
    first_latency_s: np.ndarray,
) -> tuple[float, float, float, float]:
    """The kernel in arrays."""
    hosts = noise.shape[1]
    used = np.bincount(owner.ravel(), minlength=hosts) > 0
    busy = rates[:, None] * np.bincount(owner.ravel(), weights=costs.ravel(), minlength=hosts) * noise
    waiting = np.zeros_like(busy)
    for sample, level in enumerate(busy):
        backlog_s[:] = (backlog_s + (level - 1.0) * step_s).clip(0)
        waiting[sample] = backlog_s
    slowing = 1.0 / (1.0 - busy.clip(0.0, BUSIEST))
    latency_s = (service_s * slowing[:, owner] + waiting[:, owner]).sum(axis=2)
    latency_s += np.count_nonzero(owner[:, 1:] != owner[:, :-1], axis=1) * hop_s
    latency_s += (pauses_s - np.arange(len(rates))[:, None] * step_s).clip(0)
    fresh = np.isnan(first_latency_s)
    first_latency_s[fresh] = latency_s[:, fresh].mean(axis=0)
    ratio = latency_s / first_latency_s
    return (
        float(busy[:, used].clip(0, 1).mean()),
        float(busy.mean(axis=0).max()),
        float(ratio.mean()),
        float(ratio.max(axis=1).mean()),
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_of_a_period_agrees_with_its_plain_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, hosts, samples = 7, 4, 10
    first_latency_s = np.where(rng.random(queries) < 0.5, np.nan, rng.uniform(0.001, 0.01, queries))
    backlog_s = rng.uniform(0, 0.5, hosts)
    arguments = (
        rng.integers(0, hosts - 1, (queries, 4)),
        rng.uniform(0, 4e-4, (queries, 4)),
        rng.uniform(0, 1e-3, (queries, 4)),
        rng.uniform(300, 900, samples),
        rng.uniform(0.9, 1.1, (samples, hosts)),
        *(5e-4, 1.0),
        rng.choice([0.0, 2.5], queries),
    )
    plain_backlog_s, plain_first_s = backlog_s.copy(), first_latency_s.copy()
    expected = process_plain(*arguments, plain_backlog_s, plain_first_s)
    assert process(*arguments, backlog_s, first_latency_s) == pytest.approx(expected)
    assert backlog_s == pytest.approx(plain_backlog_s)
    assert first_latency_s == pytest.approx(plain_first_s)


def test_the_count_of_queries_follows_a_day_up_to_its_peak() -> None:
    counts = query_day(750.0, seed=8).counts
    assert counts.max() == 45
    assert counts.min() == 8
    assert counts[:20].mean() < 20 < 30 < counts[100:250].mean()
    assert counts[-20:].mean() < 20


def test_queries_are_exchanged_while_their_count_stays() -> None:
    day = query_day(750.0, seed=8)
    lives_s = (day.last - day.first) * day.period_s
    assert len(day.first) > 3 * 45
    assert 60 < lives_s.mean() < 300


def test_a_varying_rate_touches_both_bounds_and_has_no_jumps() -> None:
    rates = varying_rate(400.0, 1000.0, seed=2).ravel()
    assert (rates.min(), rates.max()) == (400.0, 1000.0)
    assert np.abs(np.diff(rates)).max() < 100
    assert np.array_equal(rates, varying_rate(400.0, 1000.0, seed=2).ravel())


def test_the_same_seed_gives_the_same_day_and_another_one_does_not() -> None:
    first, again = (run_day(query_day(750.0, seed=3, periods=90), FIRST_FIT, seed=5) for _ in range(2))
    assert all(np.array_equal(getattr(first, name.name), getattr(again, name.name)) for name in fields(Course))
    other = run_day(query_day(750.0, seed=4, periods=90), FIRST_FIT, seed=5)
    assert first.mean_utilisation != other.mean_utilisation


@pytest.mark.parametrize("planner", [FIRST_FIT, partial(fugu, threshold=0.85)])
def test_hosts_come_and_go_with_the_queries(planner: Callable[[Problem], Plan]) -> None:
    seen: list[tuple[Problem, Plan]] = []
    course = run_day(WHOLE_DAY, watched(planner, seen))
    assert np.array_equal(course.queries, WHOLE_DAY.counts)
    assert course.hosts.max() >= 2 * course.hosts[0]
    assert course.hosts[-1] <= course.hosts.max() - 2
    assert all(problem.faults(plan.owner) == [] for problem, plan in seen)
    for problem, _ in seen:  # the hosts in use and two spares run, or are about to
        assert np.count_nonzero(problem.open_nodes) <= len(set(problem.homes[problem.homes != NEW].tolist())) + 2


def test_rebalancing_uses_fewer_hosts_at_the_price_of_moves() -> None:
    plain, packed = run_day(WHOLE_DAY, FIRST_FIT), run_day(WHOLE_DAY, partial(fugu, threshold=0.85))
    assert packed.hosts.mean() < plain.hosts.mean()
    assert packed.mean_utilisation > plain.mean_utilisation + 6
    assert plain.moves.sum() == 0 < packed.moves.sum()
    assert packed.highest_ratio.mean() > plain.highest_ratio.mean()


def test_new_queries_are_estimated_from_the_worst_case_and_then_measured() -> None:
    seen: list[tuple[Problem, Plan]] = []
    run_day(DAY, watched(FIRST_FIT, seen))
    estimated = sum(float(problem.loads[problem.homes == NEW, 0].sum()) for problem, _ in seen)
    true = float((DAY.event_s * np.stack([DAY.shares**0, DAY.shares**0, DAY.shares, DAY.shares], axis=1)).sum() * 750)
    assert estimated > 1.3 * true
    last, _ = seen[-1]
    running = (DAY.first < DAY.periods - 1) & (DAY.last >= DAY.periods - 1)
    assert last.loads[last.homes != NEW, 0].max() <= DAY.event_s[running].max() * 750


def test_a_steady_query_keeps_its_latency_and_a_move_pauses_it() -> None:
    steady = run_day(one_query(100.0), FIRST_FIT)
    assert steady.highest_ratio == pytest.approx(1.0, abs=0.05)
    periods = iter(range(20))

    def move_once(problem: Problem) -> Plan:
        away = next(periods) == 5
        return Plan.of(problem, 1 - problem.homes if away else problem.homes, "by hand")

    moved = run_day(one_query(100.0), FIRST_FIT, adapt=move_once)
    assert moved.moves.tolist() == [0] * 5 + [4] + [0] * 14
    assert moved.moved_bytes[5] == pytest.approx(0.5 * 100 * 100.0 * 100)
    assert moved.highest_ratio[5] > 4
    assert moved.highest_ratio[6:] == pytest.approx(1.0, abs=0.05)


def test_work_past_a_hosts_capacity_waits_until_there_is_time_for_it() -> None:
    day = one_query(500.0)
    rates = day.rates_per_s.copy()
    rates[8:12] *= 1.5  # three operators of 1 ms and half the events for two of them: 3 ms an event on one host
    course = run_day(replace(day, rates_per_s=rates * 0.6), partial(first_fit, threshold=2.0))
    assert course.highest_utilisation[10] > 1
    assert course.utilisation[10] <= 1
    assert course.highest_ratio[11] > course.highest_ratio[9] > 10
    assert course.highest_ratio[-1] < course.highest_ratio[11]


def test_hosts_take_time_to_start() -> None:
    seen: list[tuple[Problem, Plan]] = []
    run_day(DAY, watched(FIRST_FIT, seen), hosts=Hosts(spares=1, start_up_s=1e9))
    assert all(np.count_nonzero(problem.open_nodes) == 1 for problem, _ in seen)


def test_a_plan_for_something_else_is_an_error() -> None:
    other = Problem(loads=[1.0], homes=[NEW], capacities=[1.0])
    with pytest.raises(BalanceError) as caught:
        run_day(DAY, lambda _: first_fit(other))
    assert caught.value.code == "simulate.plan"


def test_a_day_without_periods_is_an_error() -> None:
    with pytest.raises(BalanceError) as caught:
        query_day(750.0, seed=1, periods=0)
    assert caught.value.code == "simulate.day"


def test_foresight_shows_planners_the_load_of_a_rising_rate_only() -> None:
    day = one_query(500.0)
    rates = np.concatenate([np.linspace(100, 200, 100), np.linspace(200, 100, 100)]).reshape(20, 10)
    seen: list[tuple[Problem, Plan]] = []
    run_day(
        replace(day, rates_per_s=rates),
        FIRST_FIT,
        adapt=watched(lambda problem: Plan.of(problem, problem.homes, "stay"), seen),
        foresight_s=10.0,
    )
    loads = np.array([problem.loads[0, 0] for problem, _ in seen]) * 1e3  # 1 ms an event
    measured = rates.mean(axis=1)
    assert loads[2:9] == pytest.approx(measured[1:8] + 15, abs=1.5)  # half a period and one more ahead of the mean
    assert loads[12:] == pytest.approx(measured[11:19], abs=0.5)


def test_planners_get_the_traffic_between_operators_if_requested() -> None:
    seen: list[tuple[Problem, Plan]] = []
    run_day(one_query(100.0), FIRST_FIT, adapt=watched(lambda p: Plan.of(p, p.homes, "stay"), seen), traffic_seen=True)
    traffic = seen[-1][0].traffic
    assert traffic is not None
    assert traffic.toarray()[:, 1:].diagonal().tolist() == pytest.approx([10_000, 5_000, 5_000])
    assert seen[-1][0].collocation(np.zeros(4)) == 100.0
