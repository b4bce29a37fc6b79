"""Figure 4: imbalance and memory of the schemes against skew, for 10, 100 and 1,000 virtual workers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.nasir_2017.balance_and_memory import (
    EPSILON,
    IMBALANCE_AXIS,
    Measured,
    draw_lines,
    largest,
    measure,
    new_router,
    ratios,
    span_text,
)
from trimtab_lab.workloads.key_streams import zipf_keys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES = ("KG", "PKG", "PoTC", "SG", "CH", "PoRC")
BINS = (10, 100, 1000)
KEYS = 100_000
STEEP = 1.2
"""From this exponent on the most frequent key has a fifth of all messages and more."""


def run(settings: Settings) -> Results:
    """Every exponent, number of virtual workers and scheme."""
    full = settings.scale is Scale.FULL
    messages = 10_000_000 if full else 400_000
    exponents = (0.1, 0.4, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0) if full else (0.1, 0.8, 1.2, 2.0)
    measured: dict[str, Measured] = {str(bins): {} for bins in BINS}
    for step, exponent in enumerate(exponents):
        keys = zipf_keys(messages, KEYS, exponent, seed=settings.seed)
        for place, bins in enumerate(BINS):
            settings.progress((step + place / len(BINS)) / len(exponents), f"exponent {exponent}, {bins} bins")
            for scheme in SCHEMES:
                measure(measured[str(bins)], scheme, new_router(scheme, bins, settings.seed), keys)
    rows = [(bins, exponent, step) for bins in BINS for step, exponent in enumerate(exponents)]

    def table(title: str, what: str) -> Table:
        cells = tuple((b, e, *(measured[str(b)][s][what][step] for s in SCHEMES)) for b, e, step in rows)
        return Table(title, ("virtual workers", "exponent", *SCHEMES), cells)

    to_pkg = [r for of_bins in measured.values() for r in ratios(of_bins["PoRC"]["memory"], of_bins["PKG"]["memory"])]
    return Results(
        tables=(table("Imbalance: fullest over mean, minus 1", "imbalance"), table("Memory: keys x bins", "memory")),
        notes=(
            "An imbalance of 0 is drawn at the foot of the axis.",
            f"PoRC needs {span_text(to_pkg)} times PKG's memory: less on flat streams, more on steep ones, where PKG "
            "pays with imbalance.",
        ),
        series={"exponents": list(exponents), "messages": messages, "measured": measured},
    )


def holds(results: Results) -> Verdict:
    """Section V-A's sentences on the figure, and the bound of section VI."""
    measured, exponents = results.series["measured"], results.series["exponents"]
    steep = [step for step, exponent in enumerate(exponents) if exponent >= STEEP]
    by_bins = [measured[str(bins)] for bins in BINS]
    excess = [
        largest(of_bins["PoRC"]["imbalance"]) - EPSILON - bins / results.series["messages"]
        for bins, of_bins in zip(BINS, by_bins, strict=True)
    ]
    to_porc = [ratio for of_bins in by_bins for ratio in ratios(of_bins["SG"]["memory"], of_bins["PoRC"]["memory"])]
    others = [largest(of_bins[scheme]["imbalance"]) for of_bins in by_bins for scheme in ("PoTC", "SG", "CH", "PoRC")]
    return Verdict(
        (
            Check(
                "KG's and PKG's imbalance grows with skew and with the number of virtual workers",
                _grows_with_skew(by_bins, steep) and _grows_with_bins(by_bins, steep),
                "high, and grows with both",
                f"PKG at exponent {exponents[-1]}: "
                + ", ".join(f"{of_bins['PKG']['imbalance'][-1]:.3g}" for of_bins in by_bins),
            ),
            Check(
                "PoRC's imbalance is at most epsilon (and one message)",
                max(excess) <= 1e-9,
                f"at most {EPSILON}",
                f"at most {max(largest(of_bins['PoRC']['imbalance']) for of_bins in by_bins):.4f}",
            ),
            Check(
                "PoTC, SG, CH and PoRC are fairly even at any skew",
                max(others) <= 2 * EPSILON,
                "perform fairly well",
                f"at most {max(others):.4f}",
            ),
            Check(
                "Balance costs memory: KG <= PKG and PoRC < CH < PoTC and SG, at every exponent and size",
                all(_memory_in_order(of_bins) for of_bins in by_bins),
                "load balance is achieved at the cost of memory",
                f"SG over PoRC: {span_text(to_porc)}",
            ),
        )
    )


def _grows_with_skew(by_bins: list[Mapping[str, Any]], steep: list[int]) -> bool:
    return all(
        of_bins[scheme]["imbalance"][low] < of_bins[scheme]["imbalance"][high]
        for of_bins in by_bins
        for scheme in ("KG", "PKG")
        for low, high in pairwise([0, *steep])
    )


def _grows_with_bins(by_bins: list[Mapping[str, Any]], steep: list[int]) -> bool:
    return all(
        few[scheme]["imbalance"][step] < many[scheme]["imbalance"][step]
        for few, many in pairwise(by_bins)
        for scheme in ("KG", "PKG")
        for step in steep
    )


def _memory_in_order(of_bins: Mapping[str, Any]) -> bool:
    rows = zip(*(of_bins[scheme]["memory"] for scheme in SCHEMES), strict=True)
    return all(kg <= min(pkg, porc) and max(pkg, porc) < ch < min(potc, sg) for kg, pkg, potc, sg, ch, porc in rows)


def draw(results: Results, figure: Figure) -> None:
    """Imbalance above, memory below, one column per number of virtual workers."""
    axes = figure.subplots(2, 3, sharex=True, sharey="row")
    for column, bins in enumerate(BINS):
        measured = results.series["measured"][str(bins)]
        draw_lines(axes[0, column], measured, "imbalance", results.series["exponents"], shade_bound=True)
        draw_lines(axes[1, column], measured, "memory", results.series["exponents"])
        axes[0, column].set_title(f"{bins:,} virtual workers")
        axes[1, column].set_xlabel("Zipf exponent")
    axes[0, 0].set_ylabel(IMBALANCE_AXIS)
    axes[1, 0].set_ylabel("memory (keys x bins)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(SCHEMES))


EXPERIMENT = Experiment(
    id="cg-fig4",
    paper="Nasir 2017",
    figures="figure 4",
    claim="KG and PKG get uneven as skew and virtual workers grow; PoRC stays within epsilon, at less memory than CH, "
    "PoTC and SG",
    workload="Zipf streams as in the paper: 10 M messages, 100 k keys, exponents 0.1 to 2.0 (nine of them)",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(10.0, 6.0),
)
