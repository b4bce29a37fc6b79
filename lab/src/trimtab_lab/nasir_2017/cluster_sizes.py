"""Figures 7 and 8: imbalance and memory on the Wikipedia stream, of virtual workers and of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Verdict
from trimtab_lab.nasir_2017.balance_and_memory import (
    EPSILON,
    IMBALANCE_AXIS,
    Measured,
    draw_lines,
    largest,
    linear_memory,
    mark_sizes,
    measure,
    new_router,
    note,
    ratios,
    span_text,
    tables,
)
from trimtab_lab.nasir_2017.steady_cluster import VIRTUAL_WORKERS, after_a_steady_stream
from trimtab_lab.workloads.key_streams import wikipedia_like

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = (5, 10, 50, 100)
ASSIGNERS = ("KG", "PKG", "PoTC", "SG", "CH", "PoRC")
GROUPINGS = ("KG", "PKG", "PoTC", "SG", "CH", "CG")
EVEN_MESSAGES = 5
"""Nearly perfect: the fullest has at most this many messages above the mean (Lemma 6.2: of the order of ln ln n)."""


def run(settings: Settings, *, bins_a_worker: int, schemes: Sequence[str]) -> Results:
    """Every cluster size and scheme over the same stream."""
    messages = 22_000_000 if settings.scale is Scale.FULL else 600_000
    keys = wikipedia_like(messages, seed=settings.seed)
    measured: Measured = {}
    sizes = [workers * bins_a_worker for workers in WORKERS]
    for step, size in enumerate(sizes):
        for place, scheme in enumerate(schemes):
            settings.progress((step + place / len(schemes)) / len(sizes), f"{scheme}, {size} bins")
            if scheme == "CG":
                note(measured, scheme, after_a_steady_stream(size, keys, sources=1, seed=settings.seed))
            else:
                measure(measured, scheme, new_router(scheme, size, settings.seed), keys)
    heading = "virtual workers" if bins_a_worker > 1 else "workers"
    return Results(
        tables=tables(measured, heading, sizes), series={"sizes": sizes, "messages": messages, "measured": measured}
    )


def _bounded(results: Results, scheme: str) -> bool:
    """Whether imbalance is within epsilon, plus one message for each bin (for CG: for each virtual worker)."""
    bins_a_worker = VIRTUAL_WORKERS if scheme == "CG" else 1
    return all(
        imbalance <= EPSILON + bins_a_worker * size / results.series["messages"] + 1e-9
        for size, imbalance in zip(
            results.series["sizes"], results.series["measured"][scheme]["imbalance"], strict=True
        )
    )


def _rises(values: Sequence[float]) -> bool:
    return all(low < high for low, high in pairwise(values))


def _messages_too_many(results: Results, scheme: str) -> list[float]:
    """How many messages the fullest has above the mean, for each size."""
    imbalance = results.series["measured"][scheme]["imbalance"]
    return [i * results.series["messages"] / size for i, size in zip(imbalance, results.series["sizes"], strict=True)]


def _common(results: Results) -> tuple[Check, ...]:
    """What the text says of both figures."""
    measured: Mapping[str, Any] = results.series["measured"]
    too_many = [largest(_messages_too_many(results, scheme)) for scheme in ("PoTC", "SG")]
    return (
        Check(
            "PoTC and SG balance nearly perfectly",
            max(too_many) <= EVEN_MESSAGES,
            "nearly perfect load balance",
            f"at most {max(too_many):.2g} messages above the mean",
        ),
        Check(
            "PoTC and SG need about the same memory, more than any other scheme",
            max(abs(r - 1) for r in ratios(measured["PoTC"]["memory"], measured["SG"]["memory"])) < 0.02
            and all(r < 1 for r in ratios(measured["CH"]["memory"], measured["PoTC"]["memory"])),
            "higher memory footprint",
            "SG over KG: " + span_text(ratios(measured["SG"]["memory"], measured["KG"]["memory"])),
        ),
    )


def virtual_workers_hold(results: Results) -> Verdict:
    """Section VII-B, Q1, second paragraph."""
    measured = results.series["measured"]
    growth = {scheme: measured[scheme]["imbalance"][-1] / measured[scheme]["imbalance"][1] for scheme in ("KG", "PKG")}
    to_pkg = ratios(measured["PoRC"]["memory"], measured["PKG"]["memory"])
    return Verdict(
        (
            Check(
                "KG's and PKG's imbalance grows linearly with the number of workers",
                all(_rises(measured[scheme]["imbalance"]) and 7 <= growth[scheme] <= 15 for scheme in ("KG", "PKG")),
                "grows linearly: 10 times from 10 to 100 workers",
                f"KG {growth['KG']:.3g} times, PKG {growth['PKG']:.3g} times",
            ),
            Check(
                "CH and PoRC bound imbalance by epsilon (and one message)",
                _bounded(results, "CH") and _bounded(results, "PoRC"),
                f"close to a constant factor from {EPSILON}",
                f"CH at most {largest(measured['CH']['imbalance']):.4f}, "
                f"PoRC at most {largest(measured['PoRC']['imbalance']):.4f}",
            ),
            *_common(results),
            Check(
                "PoRC's memory is as low as PKG's and below CH's",
                max(to_pkg) <= 1.1 and all(r < 1 for r in ratios(measured["PoRC"]["memory"], measured["CH"]["memory"])),
                "as low as PKG, very close to KG",
                f"{span_text(to_pkg)} of PKG's, "
                f"{span_text(ratios(measured['PoRC']['memory'], measured['KG']['memory']))} of KG's",
            ),
        )
    )


def workers_hold(results: Results) -> Verdict:
    """Section VII-B, Q2, first paragraph."""
    measured = results.series["measured"]
    steps = range(len(WORKERS))
    pkg = measured["PKG"]["imbalance"]
    return Verdict(
        (
            Check(
                "KG has the worst imbalance and the least memory",
                all(
                    measured["KG"]["imbalance"][step] > max(measured[s]["imbalance"][step] for s in GROUPINGS[1:])
                    and measured["KG"]["memory"][step] < min(measured[s]["memory"][step] for s in GROUPINGS[1:])
                    for step in steps
                ),
                "performs the worst; optimal memory footprint",
                f"imbalance {span_text(measured['KG']['imbalance'])}",
            ),
            Check(
                "PKG is nearly perfect at 5 and 10 workers; its imbalance grows beyond",
                max(_messages_too_many(results, "PKG")[:2]) <= EVEN_MESSAGES and pkg[1] < pkg[2] < pkg[3],
                "nearly perfect for 5 and 10, then grows",
                ", ".join(f"{value:.2g}" for value in pkg),
            ),
            *_common(results),
            Check(
                "CH and CG bound imbalance by epsilon",
                _bounded(results, "CH") and _bounded(results, "CG"),
                f"bounded, epsilon {EPSILON}",
                f"CH at most {largest(measured['CH']['imbalance']):.4f}, "
                f"CG at most {largest(measured['CG']['imbalance']):.4f}",
            ),
            Check(
                "CG needs less memory than CH, and about PKG's",
                all(r < 1 for r in ratios(measured["CG"]["memory"], measured["CH"]["memory"]))
                and max(ratios(measured["CG"]["memory"], measured["PKG"]["memory"])) <= 1.1,
                "improves the memory footprint compared to CH",
                f"{span_text(ratios(measured['CG']['memory'], measured['CH']['memory']))} of CH's, "
                f"{span_text(ratios(measured['CG']['memory'], measured['PKG']['memory']))} of PKG's",
            ),
        )
    )


def draw(results: Results, figure: Figure, *, label: str) -> None:
    """Imbalance on the left, memory on the right."""
    measured, sizes = results.series["measured"], results.series["sizes"]
    left, right = figure.subplots(1, 2)
    draw_lines(left, measured, "imbalance", sizes, shade_bound=True)
    draw_lines(right, measured, "memory", sizes)
    linear_memory(right)
    for axes, title, height in ((left, "Imbalance", IMBALANCE_AXIS), (right, "Memory", "keys x bins they are on")):
        mark_sizes(axes, sizes, label)
        axes.set_title(title)
        axes.set_ylabel(height)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=len(measured))


_STREAM = "WP-like stream (22 M messages, 2.9 M keys, the first 9.32 %), synthetic"

VIRTUAL_WORKERS_EXPERIMENT = Experiment(
    id="cg-fig7",
    paper="Nasir 2017",
    figures="figure 7",
    claim="KG's and PKG's imbalance grows linearly with workers; CH and PoRC stay within epsilon, PoRC at PKG's memory",
    workload=f"{_STREAM}; 5, 10, 50 and 100 workers of 10 virtual workers each: 50 to 1,000 bins",
    run=partial(run, bins_a_worker=VIRTUAL_WORKERS, schemes=ASSIGNERS),
    holds=virtual_workers_hold,
    draw=partial(draw, label="virtual workers (bins)"),
    size_inches=(9.0, 4.4),
)

WORKERS_EXPERIMENT = Experiment(
    id="cg-fig8",
    paper="Nasir 2017",
    figures="figure 8",
    claim="CG bounds imbalance with less memory than CH; PKG is even only on small clusters; PoTC and SG pay in memory",
    workload=f"{_STREAM}; 5, 10, 50 and 100 equal workers. CG's workers are used to 80 % and signal after every 2,000 "
    "messages each (the paper gives no length for its time slot)",
    run=partial(run, bins_a_worker=1, schemes=GROUPINGS),
    holds=workers_hold,
    draw=partial(draw, label="workers"),
    size_inches=(9.0, 4.4),
)
