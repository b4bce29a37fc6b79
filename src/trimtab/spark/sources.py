"""What can be learned of the sources that a streaming DataFrame reads."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def reads_all(frame: DataFrame) -> bool:
    """Whether each batch takes all that its sources have: none of them has an option that limits a batch."""
    plan: Any = frame._jdf.queryExecution().logical()
    leaves = plan.collectLeaves()
    return all(not _limits(leaves.apply(number)) for number in range(leaves.size()))


def _limits(leaf: Any) -> bool:
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        options = leaf.dataSource().options()
    elif kind == "StreamingRelationV2":
        options = leaf.extraOptions()
    else:
        return True  # unknown: it may be anything
    names = options.keySet().mkString("\n") if kind == "StreamingRelation" else "\n".join(options.keySet())
    return any(name.lower().endswith("pertrigger") for name in names.split("\n"))
