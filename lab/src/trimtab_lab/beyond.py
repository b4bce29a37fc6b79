"""Beyond the papers: what trimtab adds, measured beside the papers' methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab_lab.experiment import Cell, Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.nasir_2017.balance_and_memory import (
    IMBALANCE_AXIS,
    Measured,
    draw_lines,
    largest,
    linear_memory,
    mark_sizes,
    note,
    ratios,
    span_text,
)
from trimtab_lab.routers import ROUTERS
from trimtab_lab.workloads.key_streams import wikipedia_like, zipf_keys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES = {
    "KG": "KG",
    "PKG": "PKG",
    "PoTC": "PoTC",
    "SG": "SG",
    "CH": "CH",
    "PoRC": "PoRC",
    "D-Choices": "D-C",
    "W-Choices": "W-C",
}
"""Names in figures, and names of routers."""

WORKERS = (10, 100, 500)
STREAMS = ("WP-like", "Zipf 1.4")


def run(settings: Settings) -> Results:
    """Every scheme on both streams and all sizes."""
    full = settings.scale is Scale.FULL
    streams = {
        "WP-like": wikipedia_like(10_000_000 if full else 300_000, seed=settings.seed),
        "Zipf 1.4": zipf_keys(5_000_000 if full else 300_000, 100_000, 1.4, seed=settings.seed),
    }
    workers = WORKERS if full else WORKERS[:2]
    measured: dict[str, Measured] = {stream: {} for stream in STREAMS}
    steps = [(stream, size, scheme) for stream in STREAMS for size in workers for scheme in SCHEMES]
    for step, (stream, size, scheme) in enumerate(steps):
        settings.progress(step / len(steps), f"{stream}, {size} workers, {scheme}")
        router = ROUTERS[SCHEMES[scheme]](size, seed=settings.seed)
        router.route(streams[stream])
        note(measured[stream], scheme, router)

    def table(title: str, what: str) -> Table:
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (stream, size, *(measured[stream][scheme][what][step] for scheme in SCHEMES))
            for stream in STREAMS
            for step, size in enumerate(workers)
        )
        return Table(title, ("stream", "workers", *SCHEMES), rows)

    return Results(
        tables=(table("Imbalance: fullest over mean, minus 1", "imbalance"), table("Memory: keys x workers", "memory")),
        series={
            "workers": list(workers),
            "messages": {stream: int(keys.size) for stream, keys in streams.items()},
            "measured": measured,
        },
        notes=(
            "D-Choices and W-Choices split every key in two, and hot ones further; PoRC splits only what does not fit. "
            "So PoRC is the cheapest where most keys are rare (WP-like), and the other two where few are (Zipf 1.4).",
            "D-Choices draws its choices by hash: two of them may be the same worker, so its balance is not exact.",
        ),
    )


def holds(results: Results) -> Verdict:
    """Our own claims."""
    measured, workers = results.series["measured"], results.series["workers"]
    w_imbalance = [
        value * results.series["messages"][stream] / size
        for stream in STREAMS
        for value, size in zip(measured[stream]["W-Choices"]["imbalance"], workers, strict=True)
    ]
    d_imbalance = [value for stream in STREAMS for value in measured[stream]["D-Choices"]["imbalance"]]
    pkg_imbalance = [value for stream in STREAMS for value in measured[stream]["PKG"]["imbalance"]]
    to_ch = [
        ratio
        for stream in STREAMS
        for scheme in ("D-Choices", "W-Choices")
        for ratio in ratios(measured[stream][scheme]["memory"], measured[stream]["CH"]["memory"])
    ]
    to_porc = {
        stream: ratios(measured[stream]["D-Choices"]["memory"], measured[stream]["PoRC"]["memory"])
        for stream in STREAMS
    }
    return Verdict(
        (
            Check(
                "W-Choices is nearly perfectly even at any size: at most 5 messages above the mean",
                largest(w_imbalance) <= 5,
                "",
                f"at most {largest(w_imbalance):.2g} messages",
            ),
            Check(
                "D-Choices stays within 10 % of even where PKG does not",
                largest(d_imbalance) <= 0.1 and largest(pkg_imbalance) > 1,
                "",
                f"D-Choices at most {largest(d_imbalance):.2g}, PKG up to {largest(pkg_imbalance):.3g}",
            ),
            Check(
                "Both need less memory than CH, and so than PoTC and SG",
                largest(to_ch) < 1,
                "",
                f"{span_text(to_ch)} of CH's",
            ),
            Check(
                "D-Choices needs less memory than PoRC on a steep stream",
                largest(to_porc["Zipf 1.4"]) < 1,
                "",
                f"{span_text(to_porc['Zipf 1.4'])} of PoRC's; on the WP-like stream {span_text(to_porc['WP-like'])}",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Imbalance above, memory below, one column per stream."""
    axes, workers = figure.subplots(2, 2, sharex=True), results.series["workers"]
    for column, stream in enumerate(STREAMS):
        measured = results.series["measured"][stream]
        draw_lines(axes[0, column], measured, "imbalance", workers)
        draw_lines(axes[1, column], measured, "memory", workers)
        axes[0, column].set_title(f"{stream} stream")
        linear_memory(axes[1, column])
        mark_sizes(axes[1, column], workers, "workers")
    axes[0, 0].set_ylabel(IMBALANCE_AXIS)
    axes[1, 0].set_ylabel("memory (keys x workers)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(SCHEMES))


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        id="beyond-choices",
        paper="beyond the papers",
        figures="D-Choices and W-Choices beside the schemes of Nasir 2017",
        claim="More choices for hot keys only: as even as PoTC or nearly so, at about PKG's memory",
        workload="WP-like stream (10 M messages, the first key 9.32 %) and Zipf 1.4 (5 M messages, 100 k keys), both "
        "synthetic; 10, 100 and 500 equal workers",
        run=run,
        holds=holds,
        draw=draw,
        size_inches=(10.0, 6.0),
    ),
)
