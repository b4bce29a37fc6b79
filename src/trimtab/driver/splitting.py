"""Which queries may have their hot keys split over engines: those whose parts add up to exactly the same answer."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.deciding.placement import SCHEMES
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.windows.grouped import GroupQuery
from trimtab.engine.windows.over import OverQuery
from trimtab.errors import JobError
from trimtab.language.compiled import Query


def check_split(name: str, query: Query, split: str | None, others: Mapping[str, str | None]) -> None:
    """Raise JobError `job.split` where a query can't be split; `others`: how other queries of its stream are."""
    if split is None:
        return
    if split not in SCHEMES:
        message = f"query {name} can't be split by {split!r}"
        raise JobError("job.split", message, f"write {', '.join(SCHEMES[:-1])} or {SCHEMES[-1]}")
    why, hint = obstacle(query)
    if why:
        raise JobError("job.split", f"query {name} can't be split: {why}", hint)
    for other, scheme in others.items():
        if scheme not in (None, split):
            message = f"query {name} is split by {split}, and query {other} of the same stream by {scheme}"
            raise JobError("job.split", message, "a stream's hot keys are spread in one way: give both the same")


def obstacle(query: Query) -> tuple[str, str]:
    """Why the parts of a key would not give the answer of the whole, and what to do; empty: they would."""
    operator = query.operator
    if operator is None:
        return "it takes rows one by one, and they are on all engines already", "leave out split"
    if isinstance(operator, MatchQuery):
        hint = "leave out split; if the pattern allows it, add a column to PARTITION BY, which makes smaller keys"
        return "a pattern needs all rows of its key in one place, in order", hint
    if isinstance(operator, OverQuery):
        hint = "leave out split, or aggregate by GROUP BY with window(...)"
        return "with OVER the result of a row needs the rows before it in one place", hint
    if isinstance(operator, KeyedQuery) and not operator.description.merges:
        hint = "add merge(left, right) to its description, or leave out split"
        return f"operator {operator.name} doesn't say how two states of a key become one", hint
    if isinstance(operator, GroupQuery) and operator.unmergeable:
        hint = "leave out split, or move it to a query of its own that isn't split"
        return "percentile_approx of parts, merged, may be another value than that of the whole", hint
    return "", ""
