from __future__ import annotations

import numpy as np
import pytest

from trimtab.errors import BalanceError
from trimtab_lab.simulation.load_model import CPU, MEMORY, NETWORK, LoadModel, Measurement, StreamOperator

QUERY = (
    StreamOperator("average", "window", inputs=("steel",), window_s=20.0, selectivity=0.5, event_bytes=50.0),
    StreamOperator("steel", "filter", inputs=("ticks",), event_bytes=80.0),
    StreamOperator("ticks", "source", stream="exchange", selectivity=1.0),
    StreamOperator("out", "sink", inputs=("average",), selectivity=0.0),
)
"""Not in the order of the stream, which must not matter."""

SEEN = (
    LoadModel(unseen_event_s=0.01)
    .observe(rates_per_s={"exchange": 100.0})
    .observe(
        [
            Measurement("before", "filter", 10.0, events_in=1000, events_out=100, busy_s=1.0),
            Measurement("long before", "filter", 10.0, events_in=1000, events_out=300, busy_s=3.0),
        ]
    )
)


def test_cpu_is_processing_time_times_input_rate() -> None:
    # The filter as filters before: 2 ms an event, and at most 0.3 of the events pass. The others are unseen: 10 ms.
    assert SEEN.estimate(QUERY)[:, CPU].tolist() == pytest.approx([0.01 * 30, 0.002 * 100, 0.01 * 100, 0.01 * 15])


def test_memory_is_rate_times_window_times_event_size() -> None:
    assert SEEN.estimate(QUERY)[:, MEMORY].tolist() == pytest.approx([30 * 20 * 80.0, 0, 0, 0])


def test_network_counts_what_crosses_between_nodes_at_both_ends() -> None:
    ticks, steel, average = 100 * 100.0, 30 * 80.0, 15 * 50.0
    apart = [steel + average, ticks + steel, ticks, average]
    assert SEEN.estimate(QUERY)[:, NETWORK].tolist() == pytest.approx(apart)
    assert SEEN.estimate(QUERY, [-1, -1, -1, -1])[:, NETWORK].tolist() == pytest.approx(apart)
    assert SEEN.estimate(QUERY, [0, 0, 0, 0])[:, NETWORK].tolist() == [0, 0, 0, 0]
    assert SEEN.estimate(QUERY, [1, 0, 0, 1])[:, NETWORK].tolist() == pytest.approx([steel, steel, 0, 0])


def test_the_highest_rate_so_far_counts() -> None:
    later = SEEN.observe(rates_per_s={"exchange": 50.0})
    assert np.array_equal(later.estimate(QUERY), SEEN.estimate(QUERY))
    assert later.observe(rates_per_s={"exchange": 200.0}).estimate(QUERY)[2, CPU] == pytest.approx(2.0)


def test_measurements_take_the_place_of_estimates_and_rates_follow_from_them() -> None:
    measured = Measurement("steel", "filter", 10.0, events_in=600, events_out=60, busy_s=0.5, state_bytes=7.0)
    loads = SEEN.observe([measured]).estimate(QUERY)
    assert loads[1, CPU] == pytest.approx(0.05)
    assert loads[1, MEMORY] == 7.0
    assert loads[0, CPU] == pytest.approx(0.01 * 6)
    assert SEEN.observe([measured]).forget(["steel"]).estimate(QUERY)[0, CPU] == pytest.approx(0.01 * 30)


def test_what_is_forgotten_still_counts_for_its_kind() -> None:
    model = SEEN.observe([Measurement("x", "sink", 1.0, events_in=100, events_out=0, busy_s=0.4)]).forget(["x"])
    assert model.measured.keys() == SEEN.measured.keys()
    assert model.event_s("sink") == pytest.approx(0.004)
    assert SEEN.event_s("sink") == 0.01


def test_an_operator_that_received_nothing_does_not_change_its_kind() -> None:
    model = LoadModel().observe([Measurement("x", "filter", 1.0, events_in=0, events_out=0, busy_s=0.0)])
    source = StreamOperator("s", "source", stream="t", selectivity=1.0)
    follow = (source, StreamOperator("f", "filter", ("s",)), StreamOperator("w", "window", ("f",)))
    assert model.observe(rates_per_s={"t": 10.0}).estimate(follow)[2, CPU] == pytest.approx(0.01)


def test_operators_that_join_streams_receive_the_sum() -> None:
    graph = (
        StreamOperator("a", "source", stream="t", selectivity=1.0),
        StreamOperator("b", "source", stream="u", selectivity=1.0),
        StreamOperator("j", "join", ("a", "b"), selectivity=0.1),
    )
    model = LoadModel(unseen_event_s=0.001).observe(rates_per_s={"t": 10.0, "u": 30.0})
    assert model.estimate(graph)[2, CPU] == pytest.approx(0.04)


def test_models_are_values() -> None:
    before = SEEN.estimate(QUERY)
    SEEN.observe([Measurement("steel", "filter", 1.0, 1, 1, 1.0)], rates_per_s={"exchange": 999.0})
    assert np.array_equal(SEEN.estimate(QUERY), before)


@pytest.mark.parametrize(
    "operators",
    [
        (StreamOperator("a", "filter", ("a",)),),
        (StreamOperator("a", "filter", ("b",)), StreamOperator("b", "filter", ("a",))),
        (StreamOperator("a", "filter", ("missing",)),),
        (StreamOperator("a", "source"), StreamOperator("a", "source")),
    ],
)
def test_a_graph_that_is_none_is_an_error(operators: tuple[StreamOperator, ...]) -> None:
    with pytest.raises(BalanceError) as caught:
        LoadModel().estimate(operators)
    assert caught.value.code == "plan.graph"


def test_a_period_without_length_is_an_error() -> None:
    with pytest.raises(BalanceError) as caught:
        LoadModel().observe([Measurement("a", "filter", 0.0, 1, 1, 1.0)])
    assert caught.value.code == "plan.period"


def test_no_operators_need_nothing() -> None:
    assert LoadModel().estimate(()).shape == (0, 3)
