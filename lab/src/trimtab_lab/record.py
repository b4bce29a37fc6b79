"""The record of a run: what was run and where, the results and the verdict. To JSON and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict

DIGITS = 5
MOST_POINTS = 150


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a run. `started` is in UTC, `commit` None outside a checkout."""

    started: str
    commit: str | None
    versions: Mapping[str, str]
    machine: Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class Record:
    """One experiment, run once. Its values are plain: strings, numbers, lists."""

    id: str
    paper: str
    figures: str
    claim: str
    workload: str
    seed: int
    scale: Scale
    seconds: float
    conditions: Conditions
    results: Results
    verdict: Verdict


def record_of(
    experiment: Experiment,
    settings: Settings,
    results: Results,
    verdict: Verdict,
    conditions: Conditions,
    seconds: float,
) -> Record:
    """The record of a run."""
    tables = tuple(
        Table(table.title, tuple(table.columns), tuple(tuple(plain(cell) for cell in row) for row in table.rows))
        for table in results.tables
    )
    return Record(
        id=experiment.id,
        paper=experiment.paper,
        figures=experiment.figures,
        claim=experiment.claim,
        workload=experiment.workload,
        seed=settings.seed,
        scale=settings.scale,
        seconds=round(seconds, 2),
        conditions=conditions,
        results=Results(tables, plain(results.series), tuple(results.notes)),
        verdict=Verdict(
            tuple(Check(each.sentence, bool(each.holds), each.paper, each.ours) for each in verdict.checks),
            verdict.reason,
        ),
    )


def to_json(record: Record) -> dict[str, Any]:
    """The record as JSON values."""
    return {
        "id": record.id,
        "paper": record.paper,
        "figures": record.figures,
        "claim": record.claim,
        "workload": record.workload,
        "seed": record.seed,
        "scale": record.scale.value,
        "started": record.conditions.started,
        "seconds": record.seconds,
        "commit": record.conditions.commit,
        "versions": dict(record.conditions.versions),
        "machine": dict(record.conditions.machine),
        "verdict": {
            "holds": record.verdict.holds,
            "reason": record.verdict.reason,
            "checks": [asdict(check) for check in record.verdict.checks],
        },
        "tables": [
            {"title": table.title, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}
            for table in record.results.tables
        ],
        "notes": list(record.results.notes),
        "series": dict(record.results.series),
    }


def from_json(values: Mapping[str, Any]) -> Record:
    """The record that `to_json` wrote; whether the claim holds follows from its checks."""
    tables = tuple(
        Table(each["title"], tuple(each["columns"]), tuple(tuple(row) for row in each["rows"]))
        for each in values["tables"]
    )
    verdict = values["verdict"]
    return Record(
        **{name: values[name] for name in ("id", "paper", "figures", "claim", "workload", "seed", "seconds")},
        scale=Scale(values["scale"]),
        conditions=Conditions(**{name: values[name] for name in ("started", "commit", "versions", "machine")}),
        results=Results(tables, values["series"], tuple(values["notes"])),
        verdict=Verdict(tuple(Check(**check) for check in verdict["checks"]), verdict["reason"]),
    )


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays as lists, NaN as None, infinities as text.

    >>> import numpy as np
    >>> plain({4: np.array([1.5, np.nan]), "top": (np.int64(3), float("inf"))})
    {'4': [1.5, None], 'top': [3, 'inf']}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(each) for each in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None if math.isnan(value) else str(value)
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return plain(value.tolist())
    raise TypeError(f"a result holds a {type(value).__name__}, which JSON has no word for")


def small(value: Any, *, digits: int = DIGITS, most_points: int = MOST_POINTS) -> Any:
    """Plain values in few bytes: numbers rounded to `digits` digits, and of long lists every n-th element.

    Lists of the same length keep the same elements, so that points keep both coordinates.

    >>> small({"x": [0, 1, 2, 3, 4], "y": [0.1234567, 1.0, 22.0, 3.0, 4.0]}, most_points=3)
    {'x': [0, 2, 4], 'y': [0.12346, 22.0, 4.0]}
    """
    if isinstance(value, dict):
        return {key: small(each, digits=digits, most_points=most_points) for key, each in value.items()}
    if isinstance(value, list):
        step = max(1, -(-len(value) // most_points))
        return [small(each, digits=digits, most_points=most_points) for each in value[::step]]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
