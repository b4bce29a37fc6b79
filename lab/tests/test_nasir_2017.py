"""The lab's Nasir 2017: the parts of its figures, and that its verdicts can be negative."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from trimtab_lab import beyond
from trimtab_lab.experiment import Experiment, Results, Scale, Settings
from trimtab_lab.nasir_2017 import EXPERIMENTS, skew
from trimtab_lab.nasir_2017.epsilon_trade_off import by_fixed_scheme
from trimtab_lab.nasir_2017.over_a_day import DAY_S, POINTS, Day, course, strengths
from trimtab_lab.palette import SCHEME_COLOURS, SCHEME_MARKERS
from trimtab_lab.simulation.message_cluster import MessageRun
from trimtab_lab.workloads.key_streams import zipf_keys

REDUCED = Settings(scale=Scale.REDUCED)


def test_every_scheme_has_a_colour_and_a_marker_and_no_two_share_a_colour() -> None:
    assert set(skew.SCHEMES) | set(beyond.SCHEMES) <= set(SCHEME_COLOURS)
    assert set(SCHEME_COLOURS) == set(SCHEME_MARKERS)
    assert len(set(SCHEME_COLOURS.values())) == len(SCHEME_COLOURS)


def test_the_cluster_is_used_to_80_percent_whatever_the_strengths() -> None:
    day = Day(messages=1_000_000, slots=96)
    for speeds in (day.speeds(strengths(0, 1)), day.speeds(strengths(3, 5)), day.speeds(strengths(2, 10))):
        assert speeds.sum() * DAY_S == pytest.approx(1_000_000 / 0.8)
    assert day.arrivals().messages == day.arrivals((1.0, 3.0)).messages == 1_000_000


def test_a_course_takes_queues_at_the_end_and_the_rest_over_each_quarter_of_an_hour() -> None:
    slots = 2 * POINTS
    assigned = np.tile(np.array([[3, 1], [1, 1]]), (POINTS, 1))
    run = MessageRun(
        assigned=assigned,
        queue_length=np.tile(np.array([[100, 0], [7, 5]]), (POINTS, 1)),
        mean_latency_s=np.tile(np.array([[2.0, 1.0], [6.0, 1.0]]), (POINTS, 1)),
        max_latency_s=np.zeros((slots, 2)),
        utilisation=np.tile(np.array([[0.9, 0.1], [0.5, 0.5]]), (POINTS, 1)),
        replicas=None,
        moments_s=np.arange(1, slots + 1, dtype=np.float64) * np.float64(450.0),
    )
    found = course(run)
    assert found["hours"][:2] == [0.25, 0.5]
    assert set(found["queue"]) == {2.0}
    assert set(found["latency"]) == {(3 * 2 + 6) / 4 - 1}
    assert found["utilisation"] == pytest.approx([0.4] * POINTS)


def test_virtual_workers_of_a_worker_are_counted_once() -> None:
    keys = zipf_keys(20_000, 1000, 1.0, seed=1)
    imbalance, memory = by_fixed_scheme("KG", keys, seed=1)
    assert memory == np.unique(keys).size
    assert 0.05 < imbalance < 5


def results_of(experiment: Experiment) -> Results:
    return experiment.run(REDUCED)


def test_a_bound_that_is_broken_turns_the_verdict_of_figure_4() -> None:
    experiment = next(e for e in EXPERIMENTS if e.id == "cg-fig4")
    results = results_of(experiment)
    assert experiment.holds(results).holds
    worse = copy.deepcopy(dict(results.series))
    worse["measured"]["100"]["PoRC"]["imbalance"][0] = 0.05
    verdict = experiment.holds(replace(results, series=worse))
    assert [check.holds for check in verdict.checks] == [True, False, False, True]


def test_a_queue_that_grows_turns_the_verdict_of_figure_9() -> None:
    experiment = next(e for e in EXPERIMENTS if e.id == "cg-fig9")
    results = results_of(experiment)
    assert experiment.holds(results).holds
    worse = copy.deepcopy(dict(results.series))
    worse["courses"]["CG"] = worse["courses"]["KG"]
    assert not experiment.holds(replace(results, series=worse)).holds
