"""Messages a second of each scheme, compared with the same scheme as a plain loop, and a day of page views."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

from benchmarks import measure
from benchmarks.results import Bar, Cell, Number, Result, Side, Table, rate, ratio, seconds
from lab.tests.routers.plain_routers import PLAIN
from trimtab_lab.routers import ROUTERS
from trimtab_lab.routers.router import Int32Array, Int64Array
from trimtab_lab.workloads.key_streams import wikipedia_like, zipf_keys

WORKERS = 100
AT_LEAST = {"KG": 20e6, "SG": 20e6, "PKG": 20e6, "PoTC": 20e6, "PoRC": 5e6, "CG": 5e6}
DAY_AT_MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run."""

    messages: int
    plain_messages: int
    page_views: int
    exponents: tuple[float, ...]
    rounds: int


FULL = Sizes(2_000_000, 5_000, 22_000_000, (0.5, 1.0, 1.5, 2.0), 3)
QUICK = Sizes(500_000, 5_000, 500_000, (1.0, 2.0), 2)
TINY = Sizes(3_000, 300, 3_000, (1.0,), 1)


def run(sizes: Sizes) -> Result:
    """Measure every scheme over streams of several skews and over one like a day of Wikipedia."""
    streams = {z: zipf_keys(sizes.messages, 100_000, z, seed=1) for z in sizes.exponents}
    for name in ROUTERS:
        _agree(name, streams[1.0][: sizes.plain_messages])
    rates: dict[str, list[Number]] = {name: [] for name in ROUTERS}
    plain_rates: dict[str, tuple[Number, Number]] = {}
    for z, keys in streams.items():
        for name in ROUTERS:
            quick = measure.repeated(_Compiled(name, keys), rows=keys.size, rounds=sizes.rounds)
            rates[name].append(_messages_per_s(quick))
            if z == 1.0:
                short = keys[: sizes.plain_messages].tolist()
                plain = measure.repeated(_Plain(name, short), rows=len(short), rounds=sizes.rounds)
                plain_rates[name] = (_messages_per_s(plain), ratio(_per_message(plain), _per_message(quick)))
    day, total = _day(sizes)
    zipf = Table(
        ("scheme", *(f"Zipf {z}" for z in sizes.exponents), "a plain loop, Zipf 1.0", "faster by"),
        tuple((name, *rates[name], *plain_rates[name]) for name in ROUTERS),
        title=f"Messages a second on one core, {WORKERS} workers, 100,000 keys, replicas not counted",
    )
    slowest = {name: min(rates[name], key=lambda number: number.value) for name in AT_LEAST}
    return Result(
        "Routers",
        f"`route` over columns of {sizes.messages:,} keys; the plain loop over the first {sizes.plain_messages:,} of"
        " them, on which both choose the same workers.",
        (zipf, day),
        bars=(
            *(
                Bar(
                    f"{name} routes at least {least / 1e6:.0f} M messages a second at any skew",
                    slowest[name],
                    Side.AT_LEAST,
                    least,
                )
                for name, least in AT_LEAST.items()
            ),
            Bar(f"{sizes.page_views:,} messages pass every scheme in a minute", total, Side.AT_MOST, DAY_AT_MOST_S),
        ),
        notes=(
            "The plain loops of D-C and W-C search all counters of their sketch for the least one; the compiled ones"
            " continue from the last position.",
        ),
    )


def _day(sizes: Sizes) -> tuple[Table, Number]:
    keys = wikipedia_like(sizes.page_views, seed=1)
    rows: list[tuple[Cell, ...]] = []
    spent = 0.0
    for name, make in ROUTERS.items():
        router = make(WORKERS, seed=1)
        timing = measure.repeated(functools.partial(router.route, keys), rows=keys.size, rounds=1)
        spent += timing.median_s
        rows.append((name, seconds(timing), f"{router.imbalance:.4f}", f"{router.replicas:,}"))
    table = Table(
        ("scheme", "time", "imbalance", "replicas"),
        tuple(rows),
        title=f"{keys.size:,} messages like Wikipedia's, 9.32 % of one key; {WORKERS} workers, replicas counted",
    )
    return table, seconds(measure.Timing((spent,), keys.size))


@dataclass(frozen=True, slots=True)
class _Compiled:
    name: str
    keys: Int64Array

    def __call__(self) -> Int32Array:
        return ROUTERS[self.name](WORKERS, count_replicas=False).route(self.keys)


@dataclass(frozen=True, slots=True)
class _Plain:
    name: str
    keys: list[int]

    def __call__(self) -> list[int]:
        return PLAIN[self.name](WORKERS).route(self.keys)


def _agree(name: str, keys: Int64Array) -> None:
    """Check that both choose the same workers; this also compiles."""
    chosen: Any = _Compiled(name, keys)().tolist()
    assert chosen == _Plain(name, keys.tolist())(), name


def _messages_per_s(timing: measure.Timing) -> Number:
    return dataclasses.replace(rate(timing), unit="messages/s")


def _per_message(timing: measure.Timing) -> measure.Timing:
    return measure.Timing(tuple(s / timing.rows for s in timing.seconds), 1)
