"""The message cluster against its plain twin, and against queueing theory."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.simulation.plain_message_cluster import PlainCluster, PlainWorker, plain_run
from trimtab.errors import BalanceError
from trimtab_lab.simulation.arrivals import WIKIPEDIA_DAY, Arrivals, Spacing
from trimtab_lab.simulation.message_cluster import MessageRun, Work, simulate_messages, spread
from trimtab_lab.simulation.worker_signals import ByQueueLength, ByUtilisation
from trimtab_lab.simulation.worker_speeds import WorkerSpeeds

BoolArray = npt.NDArray[np.bool_]


class Modulo:
    """A router with a simple rule: worker = (key + shift) mod workers; each busy worker adds 1 to the shift."""

    def __init__(self, workers: int) -> None:
        self.workers, self.shift = workers, 0
        self.loads = np.zeros(workers)
        self.heard: list[tuple[list[bool], list[bool]]] = []

    imbalance = 0.0
    replicas = 7

    def route(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        chosen = ((keys + self.shift) % self.workers).astype(np.int32)
        self.loads += np.bincount(chosen, minlength=self.workers)
        return chosen

    def signal(self, busy: BoolArray, idle: BoolArray) -> None:
        self.heard.append((busy.tolist(), idle.tolist()))
        self.shift += int(busy.sum())


class Deaf(Modulo):
    signal = None  # type: ignore[assignment]


def plain_cluster(speeds: WorkerSpeeds) -> PlainCluster:
    def speed_at(worker: int, time_s: Fraction) -> Fraction:
        piece = int(np.searchsorted(speeds.starts_s, float(time_s), side="right")) - 1
        return Fraction(float(speeds.per_s[worker, piece]))

    workers = [PlainWorker(partial(speed_at, worker)) for worker in range(speeds.workers)]
    return PlainCluster(workers, [Fraction(float(start)) for start in speeds.starts_s])


# Powers of two make every sum, product and quotient exact in floats, so the two must agree to the last bit.
SPEEDS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])
COUNTS = st.sampled_from([0, 1, 2, 4, 8, 16])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_kernel_agrees_with_the_plain_twin_to_the_last_bit(data: st.DataObject) -> None:
    workers, slots = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    counts = data.draw(st.lists(COUNTS, min_size=slots, max_size=slots))
    arrivals = Arrivals(np.array(counts, dtype=np.int64), slot_s=8.0)
    drawn = data.draw(st.lists(st.integers(0, 5), min_size=sum(counts), max_size=sum(counts)))
    keys = np.array(drawn, dtype=np.int64)
    speeds = WorkerSpeeds.constant(data.draw(st.lists(SPEEDS, min_size=workers, max_size=workers)))
    if data.draw(st.booleans()):
        new = data.draw(st.lists(SPEEDS, min_size=workers, max_size=workers))
        speeds = speeds.changed(data.draw(st.integers(0, 40)) * 0.5, new)
    if data.draw(st.booleans()):
        start = data.draw(st.integers(0, 40)) * 0.5
        worker, factor = data.draw(st.integers(0, workers - 1)), data.draw(st.sampled_from([0.0, 0.5, 2.0]))
        speeds = speeds.slowed(worker, start, start + data.draw(st.integers(1, 7)) * 0.5, factor=factor)
    rule = data.draw(st.sampled_from([ByUtilisation(), ByQueueLength(4), None]))
    router, twin = Modulo(workers), Modulo(workers)

    def twin_hears(utilisation: list[Fraction], queue: list[int]) -> None:
        if rule is not None:
            twin.signal(*rule.busy_and_idle(np.array([float(u) for u in utilisation]), np.array(queue)))

    run = simulate_messages(router, keys, arrivals, speeds, signals=rule)
    rng = np.random.default_rng(0)
    expected = plain_run(
        lambda key: int(twin.route(np.array([key]))[0]),
        keys.tolist(),
        [[Fraction(float(t)) for t in arrivals.times_s(slot, rng)] for slot in range(slots)],
        [Fraction(1)] * keys.size,
        Fraction(8),
        plain_cluster(speeds),
        twin_hears,
    )
    assert router.heard == twin.heard
    assert run.assigned.tolist() == expected.assigned
    assert run.queue_length.tolist() == expected.queue_length
    assert run.utilisation.tolist() == [[float(u) for u in slot] for slot in expected.utilisation]
    for slot in range(slots):
        for worker in range(workers):
            latencies = expected.latencies[slot][worker]
            assert run.max_latency_s[slot, worker] == float(max(latencies, default=Fraction(0)))
            mean = sum(latencies, Fraction(0)) / max(len(latencies), 1)
            assert run.mean_latency_s[slot, worker] == pytest.approx(float(mean), rel=1e-15)


def test_with_random_times_and_work_the_twin_agrees_too() -> None:
    arrivals = Arrivals.following([1.0, 3.0, 0.5], 300, slots=9, slot_s=7.3, spacing=Spacing.RANDOM)
    keys = np.random.default_rng(5).integers(0, 1000, arrivals.messages)
    speeds = WorkerSpeeds.constant([2.3, 1.1, 0.7]).changed(20.1, [0.9, 1.7, 3.3]).slowed(2, 30.0, 36.0, factor=0.0)
    run = simulate_messages(Modulo(3), keys, arrivals, speeds, work=Work.EXPONENTIAL, seed=3)
    rng = np.random.default_rng(3)
    times, work = [], []
    for slot in range(arrivals.slots):  # in the order in which the simulation draws them
        times.append([Fraction(float(t)) for t in arrivals.times_s(slot, rng)])
        work += [Fraction(float(w)) for w in rng.standard_exponential(int(arrivals.counts[slot]))]
    expected = plain_run(lambda key: key % 3, keys.tolist(), times, work, Fraction(7.3), plain_cluster(speeds))
    assert run.queue_length.tolist() == expected.queue_length
    largest = [[float(max(latencies, default=Fraction(0))) for latencies in slot] for slot in expected.latencies]
    np.testing.assert_allclose(run.max_latency_s, largest, rtol=1e-9)
    assert run.queue_length.max() > 5
    assert (run.assigned > 0).all()


def one_worker(messages: int, per_s: float, **options: object) -> MessageRun:
    arrivals = Arrivals.steady(messages, slots=20, slot_s=messages / 20, spacing=Spacing.RANDOM)  # one a second
    keys = np.zeros(messages, dtype=np.int64)
    return simulate_messages(Modulo(1), keys, arrivals, WorkerSpeeds.constant([per_s]), seed=1, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("work", "latency_s"),
    [
        (Work.EXPONENTIAL, 1 / (1.25 - 1.0)),  # M/M/1: 1 / (mu - lambda)
        (Work.CONSTANT, 0.8 + 0.8 * 0.8 / (2 * (1 - 0.8))),  # M/D/1: Pollaczek and Khinchine
    ],
)
def test_mean_latency_is_what_queueing_theory_says(work: Work, latency_s: float) -> None:
    run = one_worker(2_000_000, 1.25, work=work)
    assert run.latency_s == pytest.approx(latency_s, rel=0.03)
    # Little's law: as many in the system as arrive a second times how long they stay.
    assert run.utilisation.mean() == pytest.approx(0.8)


def test_nothing_is_lost_messages_are_in_the_queue_or_done() -> None:
    arrivals = Arrivals.following(WIKIPEDIA_DAY, 100_000, slots=48, slot_s=1800.0)
    keys = np.arange(100_000)
    run = simulate_messages(Modulo(4), keys, arrivals, WorkerSpeeds.constant([0.4, 0.3, 0.2, 0.1]))
    assert run.assigned.sum() == 100_000
    assert run.assigned.sum(axis=1).tolist() == arrivals.counts.tolist()
    # A worker that always has a backlog uses all its capacity: what it got minus that is waiting.
    backlog = run.assigned[:, 3].sum() - 0.1 * arrivals.duration_s
    assert run.queue_length[-1, 3] == pytest.approx(backlog, abs=1.0)


def test_a_slowed_worker_falls_behind_and_recovers() -> None:
    arrivals = Arrivals.steady(1000, slots=10, slot_s=100.0)
    keys = np.zeros(1000, dtype=np.int64)
    calm = simulate_messages(Modulo(1), keys, arrivals, WorkerSpeeds.constant([2.0]))
    slowed = simulate_messages(
        Modulo(1), keys, arrivals, WorkerSpeeds.constant([2.0]).slowed(0, 200.0, 400.0, factor=0.25)
    )
    assert calm.queue_length[:, 0].tolist() == [0] * 10
    assert slowed.queue_length[:, 0].tolist() == [0, 0, 50, 100, 0, 0, 0, 0, 0, 0]
    assert slowed.utilisation[:, 0].tolist() == [0.5, 0.5, 2.0, 2.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]


def test_a_worker_that_stops_for_ever_keeps_its_messages() -> None:
    arrivals = Arrivals.steady(8, slots=4, slot_s=2.0)
    speeds = WorkerSpeeds.constant([1.0]).changed(4.0, [0.0])
    run = simulate_messages(Modulo(1), np.zeros(8, dtype=np.int64), arrivals, speeds, signals=ByUtilisation())
    assert run.queue_length[:, 0].tolist() == [0, 0, 2, 4]
    assert math.isinf(run.max_latency_s[3, 0])
    assert math.isinf(run.utilisation[3, 0])
    assert math.isinf(run.latency_s)


def test_a_stopped_worker_calls_itself_busy_even_when_nothing_comes() -> None:
    router = Modulo(2)
    arrivals = Arrivals.steady(4, slots=1, slot_s=8.0)
    simulate_messages(router, np.full(4, 1), arrivals, WorkerSpeeds.constant([0.0, 1.0]), signals=ByUtilisation())
    assert router.heard == [([True, False], [False, True])]


def test_signals_reach_the_router_after_each_slot_and_change_the_next() -> None:
    router = Modulo(2)
    arrivals = Arrivals.steady(12, slots=3, slot_s=2.0)
    run = simulate_messages(
        router, np.zeros(12, np.int64), arrivals, WorkerSpeeds.constant([1.0, 1.0]), signals=ByUtilisation()
    )
    assert run.assigned.tolist() == [[4, 0], [0, 4], [4, 0]]
    assert router.heard[0] == ([True, False], [False, True])
    assert run.imbalance.tolist() == [1.0, 1.0, 1.0]
    assert spread(run.utilisation).tolist() == [2.0, 2.0, 2.0]
    assert run.replicas is not None
    assert run.replicas.tolist() == [7, 7, 7]


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (one_worker(1000, 1.5, work=Work.EXPONENTIAL) for _ in range(2))
    np.testing.assert_array_equal(first.mean_latency_s, second.mean_latency_s)


def test_a_run_of_nothing_is_nothing() -> None:
    run = simulate_messages(
        Modulo(2), np.zeros(0, np.int64), Arrivals.steady(0, slots=3, slot_s=1.0), WorkerSpeeds.constant([1.0, 1.0])
    )
    assert run.latency_s == 0.0
    assert run.utilisation.tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("code", "attempt"),
    [
        ("simulate.messages", lambda: one_worker_of(keys=3, arrivals=4)),
        ("simulate.workers", lambda: one_worker_of(workers=2)),
        ("simulate.signals", lambda: one_worker_of(router=Deaf(1))),
        ("simulate.signals", lambda: ByUtilisation(idle_below=0.9, busy_above=0.8)),
        ("simulate.signals", lambda: ByQueueLength(0)),
        ("simulate.arrivals", lambda: Arrivals.steady(5, slots=0, slot_s=1.0)),
        ("simulate.arrivals", lambda: Arrivals.steady(5, slots=1, slot_s=0.0)),
        ("simulate.arrivals", lambda: Arrivals.following([0.0, 0.0], 5, slots=1, slot_s=1.0)),
        ("simulate.arrivals", lambda: Arrivals(np.array([1, -1]), 1.0)),
        ("simulate.speeds", lambda: WorkerSpeeds.constant([-1.0])),
        ("simulate.speeds", lambda: WorkerSpeeds.constant([])),
        ("simulate.speeds", lambda: WorkerSpeeds.constant([1.0]).changed(-1.0, [1.0])),
        ("simulate.speeds", lambda: WorkerSpeeds.constant([1.0]).changed(1.0, [1.0, 2.0])),
        ("simulate.speeds", lambda: WorkerSpeeds.constant([1.0]).slowed(1, 0.0, 1.0, factor=0.5)),
        ("simulate.speeds", lambda: WorkerSpeeds.constant([1.0]).slowed(0, 1.0, 1.0, factor=0.5)),
    ],
)
def test_invalid_arguments_are_refused(code: str, attempt: object) -> None:
    with pytest.raises(BalanceError) as caught:
        attempt()  # type: ignore[operator]
    assert caught.value.code == code


def one_worker_of(*, keys: int = 4, arrivals: int = 4, workers: int = 1, router: Modulo | None = None) -> MessageRun:
    return simulate_messages(
        Modulo(1) if router is None else router,
        np.zeros(keys, np.int64),
        Arrivals.steady(arrivals, slots=2, slot_s=1.0),
        WorkerSpeeds.constant([1.0] * workers),
        signals=ByUtilisation(),
    )


def test_a_curve_is_followed_and_every_message_is_there() -> None:
    arrivals = Arrivals.following(WIKIPEDIA_DAY, 22_000_001, slots=1440, slot_s=60.0)
    assert arrivals.messages == 22_000_001
    hours = arrivals.counts.reshape(24, 60).sum(axis=1)
    np.testing.assert_allclose(hours / hours.mean(), np.array(WIKIPEDIA_DAY) / np.mean(WIKIPEDIA_DAY), rtol=1e-5)


@pytest.mark.parametrize("spacing", Spacing)
def test_times_rise_and_stay_inside_their_slot(spacing: Spacing) -> None:
    arrivals, rng = Arrivals.steady(1000, slots=7, slot_s=60.0, spacing=spacing), np.random.default_rng(1)
    for slot in range(7):
        times = arrivals.times_s(slot, rng)
        assert (np.diff(times) >= 0).all()
        assert times[0] >= slot * 60.0
        assert times[-1] < (slot + 1) * 60.0
