"""Figure 6: epsilon trades imbalance for memory."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.nasir_2017.balance_and_memory import IMBALANCE_AXIS, LEAST_SHOWN, span_text
from trimtab_lab.palette import SCHEME_COLOURS, SCHEME_MARKERS
from trimtab_lab.routers import ROUTERS, ConsistentGrouping
from trimtab_lab.routers.replicas import ReplicaSet
from trimtab_lab.routers.router import Int64Array
from trimtab_lab.workloads.key_streams import wikipedia_like

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORKERS, VIRTUAL_WORKERS = 10, 10
EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def by_fixed_scheme(scheme: str, keys: Int64Array, seed: int) -> tuple[float, int]:
    """Imbalance and memory of the workers if KG or SG assigns messages to virtual workers, ten to a worker."""
    chosen = ROUTERS[scheme](WORKERS * VIRTUAL_WORKERS, seed=seed, count_replicas=False).route(keys) // VIRTUAL_WORKERS
    loads, pairs = np.bincount(chosen, minlength=WORKERS), ReplicaSet(WORKERS)
    pairs.add(keys, chosen.astype(np.int32, copy=False))
    return float(loads.max() / loads.mean() - 1), len(pairs)


def run(settings: Settings) -> Results:
    """KG and SG as the two ends, PoRC with each epsilon in between."""
    full = settings.scale is Scale.FULL
    messages, epsilons = (22_000_000, EPSILONS) if full else (1_000_000, (0.001, 0.01, 0.1, 1.0))
    keys = wikipedia_like(messages, seed=settings.seed)
    ends = {scheme: by_fixed_scheme(scheme, keys, settings.seed) for scheme in ("KG", "SG")}
    imbalance, memory = [], []
    for step, epsilon in enumerate(epsilons):
        settings.progress((step + 1) / (len(epsilons) + 1), f"epsilon {epsilon}")
        router = ConsistentGrouping(WORKERS, virtual_workers=VIRTUAL_WORKERS, epsilon=epsilon, seed=settings.seed)
        router.route(keys)
        imbalance.append(router.imbalance)
        memory.append(router.replicas)
    rows = [("PoRC", epsilon, imbalance[step], memory[step]) for step, epsilon in enumerate(epsilons)]
    rows = [("SG", None, *ends["SG"]), *rows, ("KG", None, *ends["KG"])]  # type: ignore[list-item]
    return Results(
        tables=(
            Table(
                "Workers' imbalance and memory by the scheme that assigns messages to virtual workers",
                ("inner scheme", "epsilon", "imbalance", "memory"),
                tuple(rows),
            ),
        ),
        series={
            "epsilons": list(epsilons),
            "imbalance": imbalance,
            "memory": memory,
            "ends": {scheme: list(end) for scheme, end in ends.items()},
            "messages": messages,
        },
    )


def holds(results: Results) -> Verdict:
    """Section VII-B, Q1, first paragraph."""
    series = results.series
    imbalance, memory, ends = series["imbalance"], series["memory"], series["ends"]
    slack = WORKERS * VIRTUAL_WORKERS / series["messages"]
    bounded = all(i <= e + slack for i, e in zip(imbalance, series["epsilons"], strict=True))
    return Verdict(
        (
            Check(
                "A larger epsilon means more imbalance",
                all(low < high for low, high in pairwise(imbalance)),
                "low imbalance at low epsilon",
                span_text(imbalance),
            ),
            Check(
                "A larger epsilon means less memory",
                all(low > high for low, high in pairwise(memory)),
                "low memory at high epsilon",
                span_text(memory, ",.0f"),
            ),
            Check("Imbalance stays within epsilon", bounded, "bounded by epsilon", "yes" if bounded else "no"),
            Check(
                "It lies between SG and KG in both",
                all(ends["SG"][0] <= i <= ends["KG"][0] for i in imbalance)
                and all(ends["KG"][1] <= m <= ends["SG"][1] for m in memory),
                "interpolates well between KG and SG",
                f"imbalance SG {ends['SG'][0]:.2g}, KG {ends['KG'][0]:.2g}; "
                f"memory KG {ends['KG'][1]:,}, SG {ends['SG'][1]:,}",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Imbalance and memory against epsilon, with KG and SG as level lines."""
    series = results.series
    left, right = figure.subplots(1, 2)

    def panel(axes: Axes, what: str, end: int, unit: float, title: str, label: str) -> None:
        heights = [height / unit for height in series[what]]
        colour, marker = SCHEME_COLOURS["PoRC"], SCHEME_MARKERS["PoRC"]
        axes.plot(series["epsilons"], heights, color=colour, marker=marker, label="over PoRC")
        for scheme in ("KG", "SG"):
            level = max(series["ends"][scheme][end] / unit, LEAST_SHOWN)
            axes.axhline(level, color=SCHEME_COLOURS[scheme], linestyle="--", label=f"over {scheme}")
        axes.set_xscale("log")
        axes.set_title(title)
        axes.set_xlabel("epsilon")
        axes.set_ylabel(label)

    panel(left, "imbalance", 0, 1.0, "Less epsilon, less imbalance", IMBALANCE_AXIS)
    panel(right, "memory", 1, 1e6, "More epsilon, less memory", "memory (million keys x workers)")
    left.set_yscale("log")
    left.legend()


EXPERIMENT = Experiment(
    id="cg-fig6",
    paper="Nasir 2017",
    figures="figure 6",
    claim="Epsilon trades imbalance for memory: low epsilon is even, high epsilon is cheap, between KG and SG",
    workload="WP-like stream (22 M messages, 2.9 M keys, the first 9.32 %), synthetic; 10 equal workers of 10 virtual "
    "workers each",
    run=run,
    holds=holds,
    draw=draw,
)
