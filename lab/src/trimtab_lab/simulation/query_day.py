"""A day of queries: when they start and end, what each costs, and the rate of the stream. Drawn from one seed.

This is the input of a system: it doesn't depend on hosts, so every planner can get the same day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

KINDS = ("source", "filter", "window", "sink")
"""The operators of `SELECT avg(price) FROM ticks WITHIN x SEC GROUP BY company WHERE sector = y`, in their order."""

EVENT_BYTES = 100.0


@dataclass(frozen=True, slots=True)
class QueryDay:
    """The input of a day.

    period_s      the length of a period
    rates_per_s   (periods, samples)  events a second in the stream
    first, last   (queries,)          the periods in which a query runs, `last` excluded
    shares        (queries,)          the share of the stream that belongs to the query's sector
    windows_s     (queries,)          how long its window is
    event_s       (queries, 4)        what an event costs each operator, in seconds of a whole host
    """

    period_s: float
    rates_per_s: Float64Array
    first: Int64Array
    last: Int64Array
    shares: Float64Array
    windows_s: Float64Array
    event_s: Float64Array

    @property
    def periods(self) -> int:
        """How many periods the day has."""
        return len(self.rates_per_s)

    @property
    def counts(self) -> Int64Array:
        """(periods,) how many queries run."""
        time = np.arange(self.periods)[:, None]
        running: Int64Array = np.count_nonzero((self.first <= time) & (time < self.last), axis=1)
        return running


@dataclass(frozen=True, slots=True)
class QueryMix:
    """How a day is drawn.

    peak, night      the most and about the fewest queries at once
    lifetime_days    how long a query runs on average, as a share of the day; shorter where the count falls
    sectors          how many sectors the stream has; their shares are unequal
    event_s          what an event costs source, filter, window and sink, in seconds of a whole host
    spread           how much an operator's cost differs from its kind's: standard deviation of the logarithm
    window_s         the shortest and the longest window
    """

    peak: int = 45
    night: int = 8
    lifetime_days: float = 1 / 24
    sectors: int = 10
    event_s: tuple[float, float, float, float] = (1.2e-5, 2.4e-5, 5.6e-4, 8e-5)
    spread: float = 0.2
    window_s: tuple[float, float] = (10.0, 300.0)


def query_day(
    rates_per_s: Float64Array | float,
    *,
    seed: int,
    periods: int = 360,
    period_s: float = 10.0,
    mix: QueryMix | None = None,
) -> QueryDay:
    """Draw a day: the count of queries rises from the night to the peak and falls again, as a web server's load does.

    The day is compressed to `periods * period_s` seconds. In every period some queries end and others start, so that
    the count follows its curve; which ones end is random.

    rates_per_s  one rate for the whole day, or (periods, samples)

    >>> day = query_day(750.0, seed=1)
    >>> int(day.counts.max()), day.event_s.shape[1]
    (45, 4)
    """
    mix = mix or QueryMix()
    if periods < 1 or mix.peak < 1:
        raise BalanceError("simulate.day", f"{periods} periods and a peak of {mix.peak} queries", "at least 1 of each")
    rng = np.random.default_rng(seed)
    first, last = _lives(_curve(rng, periods, mix), rng, 1.0 / (periods * mix.lifetime_days))
    queries = len(first)
    parts = 1.0 / np.arange(2, mix.sectors + 2)
    parts /= parts.sum()
    return QueryDay(
        period_s=period_s,
        rates_per_s=np.full((periods, 10), rates_per_s) if np.isscalar(rates_per_s) else np.asarray(rates_per_s),
        first=first,
        last=last,
        shares=rng.choice(parts, queries),
        windows_s=rng.uniform(*mix.window_s, queries),
        event_s=np.array(mix.event_s) * rng.lognormal(-(mix.spread**2) / 2, mix.spread, (queries, len(KINDS))),
    )


def varying_rate(lowest: float, highest: float, *, seed: int, periods: int = 360, samples: int = 10) -> Float64Array:
    """A rate that varies between two bounds and reaches both, as replayed ticks do: slow waves, with bursts on them.

    >>> rates = varying_rate(300.0, 600.0, seed=1)
    >>> rates.shape, float(rates.min()), float(rates.max())
    ((360, 10), 300.0, 600.0)
    """
    rng = np.random.default_rng(seed)
    steps = periods * samples
    time = np.arange(steps) / steps
    wave = 0.6 * _wandering(rng, steps, 60.0)
    for cycles in (3, 7, 12, 25):
        wave += np.sin(2 * np.pi * (cycles * time + rng.random())) / cycles**0.5
    level = (wave - wave.min()) / (wave.max() - wave.min())
    rates: Float64Array = lowest + (highest - lowest) * level
    return rates.reshape(periods, samples)


def _curve(rng: np.random.Generator, periods: int, mix: QueryMix) -> Int64Array:
    """(periods,) how many queries there should be."""
    hour = 24.0 * np.arange(periods) / max(periods - 1, 1)
    shape: Float64Array = np.interp(
        hour,
        (0, 3, 6, 8, 9.5, 12, 14, 16.5, 18, 20, 22, 24),
        (0.0, 0.2, 0.75, 0.85, 0.7, 0.95, 0.65, 0.9, 0.6, 0.35, 0.12, 0.0),
    ) + 0.05 * _wandering(rng, periods, periods / 60)
    if shape.max() > shape.min():
        shape = (shape - shape.min()) / (shape.max() - shape.min())
    return np.rint(mix.night + (mix.peak - mix.night) * shape).astype(np.int64)


def _wandering(rng: np.random.Generator, steps: int, memory: float) -> Float64Array:
    """Noise with standard deviation 1 that is correlated over about `memory` steps."""
    from scipy.signal import lfilter

    keep = np.exp(-1.0 / max(memory, 1e-9))
    noise = rng.standard_normal(steps) * np.sqrt(1 - keep**2)
    return np.asarray(lfilter([1.0], [1.0, -keep], noise))


def _lives(counts: Int64Array, rng: np.random.Generator, ending: float) -> tuple[Int64Array, Int64Array]:
    """First and last period of every query, so that as many run as should."""
    first: list[int] = []
    last = np.full(int(counts.sum()), len(counts))
    running: list[int] = []
    for period, count in enumerate(counts.tolist()):
        ends = max(int(rng.binomial(len(running), min(ending, 1.0))), len(running) - count)
        for place in sorted(rng.choice(len(running), ends, replace=False).tolist(), reverse=True) if ends else ():
            last[running.pop(place)] = period
        while len(running) < count:
            running.append(len(first))
            first.append(period)
    return np.array(first, dtype=np.int64), last[: len(first)]
