"""Imbalance and memory of schemes, measured, in tables and in panels: shared by all figures that show both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimtab_lab.experiment import Table
from trimtab_lab.palette import SCHEME_COLOURS, SCHEME_MARKERS
from trimtab_lab.routers import ROUTERS
from trimtab_lab.routers.router import Int64Array, Router

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EPSILON = 0.01
IMBALANCE_AXIS = "imbalance (max / mean - 1)"

LEAST_SHOWN = 1e-7
"""An imbalance of 0 isn't on a log axis; it is drawn at this value."""

Measured = dict[str, dict[str, list[float]]]
"""scheme -> "imbalance" or "memory" -> one number per step of the sweep."""


def measure(measured: Measured, scheme: str, router: Router, keys: Int64Array) -> None:
    """Route all keys and note imbalance and memory."""
    router.route(keys)
    note(measured, scheme, router)


def note(measured: Measured, scheme: str, router: Router) -> None:
    """Note imbalance and memory of a router after its messages."""
    of_scheme = measured.setdefault(scheme, {"imbalance": [], "memory": []})
    of_scheme["imbalance"].append(router.imbalance)
    of_scheme["memory"].append(router.replicas)


def new_router(scheme: str, workers: int, seed: int) -> Router:
    """A router by its name in the paper, with the paper's epsilon, which is also the default.

    >>> new_router("PoRC", 10, seed=1).workers
    10
    """
    return ROUTERS[scheme](workers, seed=seed)


def tables(measured: Mapping[str, Any], heading: str, steps: Sequence[float]) -> tuple[Table, ...]:
    """Two tables, one row per step and one column per scheme."""
    schemes = tuple(measured)

    def table(title: str, what: str) -> Table:
        rows = tuple((step, *(measured[s][what][i] for s in schemes)) for i, step in enumerate(steps))
        return Table(title, (heading, *schemes), rows)

    return table("Imbalance: fullest over mean, minus 1", "imbalance"), table("Memory: keys x workers", "memory")


def draw_lines(
    axes: Axes, measured: Mapping[str, Any], what: str, steps: Sequence[float], *, shade_bound: bool = False
) -> None:
    """One line per scheme, on a log axis; the first are the widest, so that coinciding lines stay visible."""
    for place, (scheme, values) in enumerate(measured.items()):
        heights = [max(value, LEAST_SHOWN) for value in values[what]]
        thinner = place / max(len(measured) - 1, 1)
        axes.plot(
            steps,
            heights,
            color=SCHEME_COLOURS[scheme],
            marker=SCHEME_MARKERS[scheme],
            linewidth=3.6 - 2.0 * thinner,
            markersize=8.0 - 3.5 * thinner,
            label=scheme,
        )
    axes.set_yscale("log")
    if shade_bound:
        axes.axhline(EPSILON, color="#999999", linewidth=1, linestyle=":")
        axes.annotate(
            "epsilon", (0.99, 1.3 * EPSILON), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8.5
        )


def linear_memory(axes: Axes) -> None:
    """A linear axis for memory that spans less than a decade: from 0, with 5 M for 5,000,000."""
    from matplotlib.ticker import EngFormatter

    axes.set_yscale("linear")
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(EngFormatter())


def mark_sizes(axes: Axes, sizes: Sequence[int], label: str) -> None:
    """A log axis with labels only at the sizes of the sweep."""
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(label)


def largest(values: Sequence[float]) -> float:
    """The largest of a sweep, 0 if there is none."""
    return max(values, default=0.0)


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The ratio of two series, step by step.

    >>> ratios([3, 8], [2, 4])
    [1.5, 2.0]
    """
    return [a / b for a, b in zip(above, below, strict=True)]


def span_text(values: Sequence[float], form: str = ".3g") -> str:
    """The smallest and the largest value as text.

    >>> span_text([3.0, 1.5, 2.0])
    '1.5 to 3'
    """
    return f"{min(values):{form}} to {max(values):{form}}"
