"""What can be learned of the sources that a streaming DataFrame reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from trimtab.errors import JobError
from trimtab.spark.brokers import unreachable
from trimtab.spark.sink_formats import SERVERS

UNLIMITED = frozenset({"avro", "csv", "json", "kafka", "orc", "parquet", "rate", "text", "xml"})
"""Sources that give a batch everything they have, unless an option says otherwise."""


def reads_all(frame: DataFrame) -> bool:
    """Whether each batch takes all that its sources have; False if that isn't known."""
    leaves = _leaves(frame._jdf.queryExecution().analyzed())
    found = [options for leaf in leaves if _name(leaf) in UNLIMITED and (options := _options(leaf)) is not None]
    is_limited = any(option.endswith("pertrigger") for options in found for option in options)
    return len(found) == len(leaves) and not is_limited


def check_reachable(frames: Mapping[str, DataFrame]) -> None:
    """Check that a broker of each stream that reads Kafka accepts a connection; Kafka's client retries for a minute.

    Raises JobError `job.source`.
    """
    servers = {
        f"{name} {number}": options.get(SERVERS, "")
        for name, frame in frames.items()
        for number, leaf in enumerate(_leaves(frame._jdf.queryExecution().analyzed()))
        if (options := _options(leaf)) is not None
    }
    for place, tried in unreachable(servers).items():
        message = f"no Kafka broker of stream {place.split()[0]} can be reached: {tried}"
        raise JobError("job.source", message, "start Kafka, or correct the addresses: a job needs one that answers")


def _leaves(plan: Any) -> list[Any]:
    leaves = plan.collectLeaves()
    return [leaves.apply(number) for number in range(leaves.size())]


def _name(leaf: Any) -> str:
    """The format of a source; empty if it can't be known."""
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        return str(leaf.dataSource().className()).lower()
    return str(leaf.sourceName()).lower() if kind == "StreamingRelationV2" else ""


def _options(leaf: Any) -> dict[str, str] | None:
    """The options of a source, with names in lower case; None if they can't be known."""
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        options = leaf.dataSource().options()
        names = [name for name in options.keySet().mkString("\n").split("\n") if name]
        return {name.lower(): str(options.apply(name)) for name in names}
    if kind == "StreamingRelationV2":
        return {name.lower(): str(value) for name, value in dict(leaf.extraOptions()).items()}
    return None
