"""The page of the lab: what each paper claims and what we found, as Markdown, made only from the records."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab_lab.cells import cell_text, numeric_columns
from trimtab_lab.experiment import Cell, Scale, Table, Verdict
from trimtab_lab.record import Record

PICTURES = "lab"
"""The folder of the pictures, relative to the page."""

SHOWN_ROWS = 16
"""Longer tables are collapsed."""

TITLES = {
    "Heinze 2013": "T. Heinze et al., *Elastic Complex Event Processing under Varying Query Load*, 2013",
    "Madsen 2017": "K. G. S. Madsen, Y. Zhou, J. Cao, *Integrative Dynamic Reconfiguration in a Parallel Stream "
    "Processing Engine*, ICDE 2017",
    "Nasir 2017": "M. A. U. Nasir et al., *Load Balancing for Skewed Streams on Heterogeneous Clusters*, 2017",
    "Zacheilas 2016": "N. Zacheilas et al., *Dynamic Load Balancing Techniques for Distributed Complex Event "
    "Processing Systems*, DAIS 2016",
    "Xu 2005": "W. Xu, J. L. Hellerstein, B. Kramer, D. Patterson, *Control Considerations for Scalable Event "
    "Processing*, 2005",
}

_HEAD = """\
# The lab

What the papers claim, tested on seeded workloads, and what we found. An experiment is one figure or table of a paper,
or one of our own; its claim is split into sentences that can be true or false, and holds when all of them are true.
One that doesn't hold is shown as such, with the reason as far as we know it.

```sh
trimtab lab list              # all experiments
trimtab lab cg-fig4           # one of them: its table, its verdict, and its files in ./lab-results
trimtab lab all               # all of them
trimtab lab page              # makes this page from the files in ./lab-results
```

This page is generated from the records and pictures in `docs/lab/`."""


def page(records: Sequence[Record], missing: Sequence[str] = ()) -> str:
    """The whole page, with the records in the given order. `missing`: the ids of experiments without a record."""
    parts = [_HEAD, "## Verdicts", _summary(records), _missing(missing), _conditions(records)]
    paper = None
    for record in records:
        if record.paper != paper:
            paper = record.paper
            parts.append(f"## {paper[:1].upper()}{paper[1:]}")
            parts += [f"{TITLES[paper]}."] if paper in TITLES else []
        parts.append(_section(record))
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict_text(verdict: Verdict) -> str:
    """Whether it holds, and how many of the checks do if not all.

    >>> from trimtab_lab.experiment import Check
    >>> verdict_text(Verdict((Check("a < b", True), Check("b < c", False))))
    'does not hold (1 of 2 checks)'
    """
    held = sum(check.holds for check in verdict.checks)
    return "holds" if verdict.holds else f"does not hold ({held} of {len(verdict.checks)} checks)"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, right: Sequence[bool] = ()) -> str:
    r"""A table in Markdown.

    >>> print(markdown_table(("scheme", "load"), (("A|B", 1.5),), right=(False, True)))
    | scheme | load |
    |---|---:|
    | A\|B | 1.5 |
    """
    written = [tuple(columns), *(tuple(cell_text(cell) for cell in row) for row in rows)]
    lines = ["| " + " | ".join(_in_cell(cell) for cell in row) + " |" for row in written]
    sides = right or [False] * len(columns)
    lines.insert(1, "|" + "".join("---:|" if side else "---|" for side in sides))
    return "\n".join(lines)


def _summary(records: Sequence[Record]) -> str:
    held = sum(record.verdict.holds for record in records)
    rows = [
        (
            f"[{record.id}](#{record.id})",
            f"{record.paper}, {record.figures}" if record.figures else record.paper,
            record.claim,
            _bold_no(record.verdict),
        )
        for record in records
    ]
    return f"{held} of {len(records)} hold.\n\n" + markdown_table(("id", "from", "claim", "verdict"), rows)


def _missing(ids: Sequence[str]) -> str:
    if not ids:
        return ""
    named = ", ".join(f"`{id_}`" for id_ in ids)
    return f"Not on this page, as no full run of them was kept yet: {named}. `trimtab lab` runs them."


def _conditions(records: Sequence[Record]) -> str:
    """Where they ran: one sentence for all, or one for each different set of conditions."""
    found: dict[str, list[str]] = {}
    for record in records:
        machine, versions = record.conditions.machine, record.conditions.versions
        text = (
            f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB, {machine['system']}; "
            + ", ".join(f"{name} {version}" for name, version in versions.items())
        )
        found.setdefault(text, []).append(record.id)
    reduced = [record.id for record in records if record.scale is Scale.REDUCED]
    if len(found) == 1:
        lines = [f"Run on {next(iter(found))}."]
    else:
        lines = [f"{', '.join(ids)}: run on {text}." for text, ids in found.items()]
    lines.append(f"They took {sum(record.seconds for record in records) / 60:.1f} minutes of a core in all.")
    if reduced:
        which = "All" if len(reduced) == len(records) else ", ".join(reduced)
        lines.append(f"{which}: a reduced run, with less data than the paper's.")
    return "\n".join(lines)


def _section(record: Record) -> str:
    heading = f"### {record.id}"
    origin = f"{record.paper[:1].upper()}{record.paper[1:]}, {record.figures}: " if record.figures else ""
    parts = [heading, f"{origin}{record.claim}", _verdict(record.verdict)]
    parts.append(f"![{_in_alt(record)}]({PICTURES}/{record.id}.png)")
    parts += [_table(table) for table in record.results.tables]
    parts.append(f"Workload: {record.workload}")
    if record.results.notes:
        parts.append("\n".join(f"- {_flat(note)}" for note in record.results.notes))
    scale = "" if record.scale is Scale.FULL else ", reduced"
    commit = f", commit {record.conditions.commit}" if record.conditions.commit else ""
    parts.append(f"Seed {record.seed}{scale}, {_seconds_text(record.seconds)}{commit}; `trimtab lab {record.id}`.")
    return "\n\n".join(parts)


def _verdict(verdict: Verdict) -> str:
    word = verdict_text(verdict)
    reason = f" {_flat(verdict.reason)}" if verdict.reason else ""
    checks = [(f"{'✓' if each.holds else '✗'} {each.sentence}", each.paper, each.ours) for each in verdict.checks]
    return f"**{word[:1].upper()}{word[1:]}.**{reason}\n\n" + markdown_table(("check", "paper", "ours"), checks)


def _table(table: Table) -> str:
    text = markdown_table(table.columns, table.rows, right=numeric_columns(table))
    if len(table.rows) <= SHOWN_ROWS:
        return f"{table.title}:\n\n{text}" if table.title else text
    title = table.title or "Table"
    return f"<details><summary>{title} ({len(table.rows)} rows)</summary>\n\n{text}\n\n</details>"


def _bold_no(verdict: Verdict) -> str:
    return "holds" if verdict.holds else f"**{verdict_text(verdict)}**"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _in_alt(record: Record) -> str:
    return _flat(f"{record.id}: {record.claim}").replace("[", "(").replace("]", ")")


def _in_cell(text: str) -> str:
    return _flat(text).replace("|", r"\|")


def _flat(text: str) -> str:
    return " ".join(text.split())
