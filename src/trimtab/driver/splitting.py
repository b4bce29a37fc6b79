"""Which queries may have their hot keys split over engines: those whose merged parts give exactly the same answer."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.deciding.placement import SCHEMES
from trimtab.errors import JobError
from trimtab.language.compiled import Query


def check_split(name: str, query: Query, split: str | None, others: Mapping[str, str | None]) -> None:
    """Raise JobError `job.split` if a query can't be split; `others`: how other queries of its stream are split."""
    if split is None:
        return
    if split not in SCHEMES:
        message = f"query {name} can't be split by {split!r}"
        raise JobError("job.split", message, f"write {', '.join(SCHEMES[:-1])} or {SCHEMES[-1]}")
    if (obstacle := query.operator.split_obstacle()) is not None:
        raise JobError("job.split", f"query {name} can't be split: {obstacle.why}", obstacle.hint)
    for other, scheme in others.items():
        if scheme not in (None, split):
            message = f"query {name} is split by {split}, and query {other} of the same stream by {scheme}"
            raise JobError("job.split", message, "a stream's hot keys are spread in one way: give both the same")
