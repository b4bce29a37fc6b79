"""Figure 11: consistent grouping with 1 to 100 sources, each of which knows only its own messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.nasir_2017.balance_and_memory import EPSILON, IMBALANCE_AXIS, Measured, linear_memory, note, span_text
from trimtab_lab.nasir_2017.steady_cluster import after_a_steady_stream
from trimtab_lab.palette import RAMP
from trimtab_lab.workloads.key_streams import wikipedia_like

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = (5, 10, 50, 100)
SOURCES = (1, 10, 50, 100)


def run(settings: Settings) -> Results:
    """Every number of sources on every cluster."""
    full = settings.scale is Scale.FULL
    messages, workers, sources = (22_000_000, WORKERS, SOURCES) if full else (1_500_000, (5, 10), (1, 10, 50))
    keys = wikipedia_like(messages, seed=settings.seed)
    measured: Measured = {}
    for step, number in enumerate(sources):
        for place, size in enumerate(workers):
            settings.progress((step + place / len(workers)) / len(sources), f"{number} sources, {size} workers")
            router = after_a_steady_stream(size, keys, sources=number, seed=settings.seed)
            note(measured, str(number), router)
    columns = ("workers", *(f"{number} source{'s' * (number > 1)}" for number in sources))

    def table(title: str, what: str) -> Table:
        rows = tuple((size, *(of[what][step] for of in measured.values())) for step, size in enumerate(workers))
        return Table(title, columns, rows)

    return Results(
        tables=(table("Imbalance: fullest over mean, minus 1", "imbalance"), table("Memory: keys x workers", "memory")),
        series={"workers": list(workers), "measured": measured},
    )


def holds(results: Results) -> Verdict:
    """Section VII-B, Q3, first paragraph: "almost remain the same on a log scale"."""
    measured = results.series["measured"]
    imbalance = [value for of in measured.values() for value in of["imbalance"]]
    memory = [value for of in measured.values() for value in of["memory"]]
    by_sources = [max(column) / min(column) for column in zip(*(of["memory"] for of in measured.values()), strict=True)]
    return Verdict(
        (
            Check(
                "Imbalance stays within a decade over all sources and workers, and near epsilon at most",
                max(imbalance) <= 2 * EPSILON and max(imbalance) <= 10 * min(imbalance),
                "almost the same on a log scale",
                span_text(imbalance),
            ),
            Check(
                "Memory hardly changes with sources and workers",
                max(memory) <= 2 * min(memory) and max(by_sources) <= 1.5,
                "almost the same on a log scale",
                f"{span_text(memory, ',.0f')}; by sources alone up to {max(by_sources):.3g} times",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Bars in groups, one group per cluster."""
    measured, workers = results.series["measured"], results.series["workers"]
    width = 0.8 / len(measured)
    for axes, what, title, label in zip(
        figure.subplots(1, 2),
        ("imbalance", "memory"),
        ("Imbalance", "Memory"),
        (IMBALANCE_AXIS, "keys x workers they are on"),
        strict=True,
    ):
        for place, (number, of) in enumerate(measured.items()):
            left = [step + (place - (len(measured) - 1) / 2) * width for step in range(len(workers))]
            axes.bar(left, of[what], width, color=RAMP[place + 2], label=f"{number} source{'s' * (number != '1')}")
        axes.set_xticks(range(len(workers)), [str(size) for size in workers])
        axes.set_title(title)
        axes.set_xlabel("workers")
        axes.set_ylabel(label)
    figure.axes[0].axhline(EPSILON, color="#999999", linewidth=1, linestyle=":")
    linear_memory(figure.axes[1])
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(measured))


EXPERIMENT = Experiment(
    id="cg-fig11",
    paper="Nasir 2017",
    figures="figure 11",
    claim="With 1 to 100 sources and 5 to 100 workers, CG's imbalance and memory stay almost the same on a log scale",
    workload="WP-like stream (22 M messages, 2.9 M keys, the first 9.32 %), synthetic, sent to the sources in turn; "
    "sources get workers' signals only with acknowledgements; 10 virtual workers a worker",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(9.0, 4.2),
)
