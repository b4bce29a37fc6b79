"""Results as text: Markdown for a page or a terminal, made only from `results.json`."""

from __future__ import annotations

import pathlib
from typing import Any

from benchmarks.results import Result, Table, from_json

RESULTS = pathlib.Path(__file__).with_name("results.json")
PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

_HEAD = """\
# Benchmarks

This page is generated: `make bench` measures on seeded workloads, writes `benchmarks/results.json` and makes this page
from it. `python -m benchmarks.run --only vshape` measures one part; `--quick` uses small sizes and writes nothing.

A number is the median over the rounds; ± is half of the range from the smallest to the largest. Things that are
compared are measured in turns, and a ratio is the median of the rounds' ratios, so that a busy machine slows both.
"""


def page(results: dict[str, Any]) -> str:
    """The page of documentation."""
    parts = [from_json(plain) for plain in results["benchmarks"].values()]
    bars = [bar for part in parts for bar in part.bars]
    held = Table(
        ("bar", "measured", "holds"), tuple((bar.claim, bar.number, "yes" if bar.holds else "**no**") for bar in bars)
    )
    machine = Table(("", ""), tuple((name, value) for name, value in results["machine"].items()))
    sections = [_HEAD, "## Bars", text(held), *(section(part) for part in parts), "## The machine", text(machine)]
    sections.append(f"One core: {results['one core']}.")
    return "\n".join(part.rstrip("\n") + "\n" for part in sections)


def section(result: Result) -> str:
    """One benchmark."""
    parts = [f"## {result.title}", result.about]
    for table in result.tables:
        if table.title:
            parts.append(f"{table.title}:")
        parts.append(text(table))
    if result.notes:
        parts.append("\n".join(f"- {note}" for note in result.notes))
    return "\n\n".join(parts) + "\n"


def text(table: Table) -> str:
    r"""A Markdown table.

    >>> print(text(Table(("pattern", "time"), (("`A | B`", "1 s"),))))
    | pattern | time |
    |---|---|
    | `A \| B` | 1 s |
    """
    lines = [table.columns, *(tuple(str(cell).replace("|", r"\|") for cell in row) for row in table.rows)]
    written = ["| " + " | ".join(line) + " |" for line in lines]
    written.insert(1, "|" + "---|" * len(table.columns))
    return "\n".join(written)
