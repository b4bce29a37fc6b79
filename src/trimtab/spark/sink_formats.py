"""What is known of the formats that sinks write, without Spark: the options that each needs, and where its rows go."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate

from trimtab.state.files import Folder

FILE_FORMATS = ("parquet", "csv", "json", "orc", "text")
"""Sources and sinks of Spark that are folders of files."""

READ_ONLY = ("rate", "rate-micro-batch", "socket")
"""Formats of Spark that streams can be read from, and nothing can be written to."""

SERVERS, OWN_SERVERS = "kafka.bootstrap.servers", "servers"
"""Kafka's addresses: the option of Spark's connector, and that of trimtab's own sink."""
NEEDED: Mapping[str, Sequence[str]] = {
    **dict.fromkeys((*FILE_FORMATS, "delta"), ("path",)),
    "kafka": (OWN_SERVERS, "topic"),
    "jdbc": ("url", "dbtable"),
}
"""Options without which a format can't be written."""

PARTITION_BY = ("partition_by", "partitionBy")
"""Options that name the columns whose values folders are named by: trimtab's own, and as Spark has it."""
PARQUET_OPTIONS = ("path", "compression", *PARTITION_BY)
"""All options of trimtab's own parquet sink."""

_REMOTE = re.compile(r"\w[\w+.-]*:/")


def option(options: Mapping[str, object], name: str) -> str:
    """An option's value, "" if it isn't there: case doesn't matter in names of options, as in Spark."""
    return next((str(value) for key, value in options.items() if key.lower() == name.lower()), "")


def partition_columns(options: Mapping[str, object]) -> tuple[str, ...]:
    """The columns to partition by: names in a list, or in one text with commas between them.

    >>> partition_columns({"partitionBy": "day, hour"}), partition_columns({"partition_by": ["day"]})
    (('day', 'hour'), ('day',))
    """
    found = next((options[name] for name in PARTITION_BY if options.get(name)), ())
    names = found.split(",") if isinstance(found, str) else found
    return tuple(str(each).strip() for each in names) if isinstance(names, Iterable) else (str(names),)


def missing_option(format_: str, options: Mapping[str, object]) -> str | None:
    """The first option that a format needs and doesn't have.

    >>> missing_option("kafka", {"topic": "alerts"}), missing_option("console", {})
    ('servers', None)
    """
    if format_.lower() == "kafka" and option(options, SERVERS):  # Spark's connector, whose topic may be a column
        return None
    return next((name for name in NEEDED.get(format_.lower(), ()) if not option(options, name)), None)


def is_own_kafka(format_: str, options: Mapping[str, object]) -> bool:
    """Whether trimtab writes to Kafka itself, and not by Spark's connector.

    >>> is_own_kafka("kafka", {"servers": "broker:9092"}), is_own_kafka("kafka", {SERVERS: "broker:9092"})
    (True, False)
    """
    return format_.lower() == "kafka" and not option(options, SERVERS) and bool(option(options, OWN_SERVERS))


def kafka_lacks(options: Mapping[str, object], columns: Sequence[str]) -> str:
    """What a query's columns and a Kafka sink's options lack for Kafka to take its rows; "" if nothing."""
    if is_own_kafka("kafka", options):
        key = option(options, "key")
        return f"the column {key}, which is to be the key" if key and key not in columns else ""
    names = {name.lower() for name in columns}
    if "value" not in names:
        return "a column value, a text or bytes: Kafka takes value, and if there are any, key, topic and headers"
    return "" if option(options, "topic") or "topic" in names else "the option topic, or a column topic"


def local_folder(path: str) -> Folder | None:
    """The folder of a path on this machine's disk; None if it is elsewhere."""
    return Folder(path) if not _REMOTE.match(path) or path.startswith("file:/") else None


def place_of(format_: str, options: Mapping[str, object], name: str) -> str:
    """What only one sink may write: a folder or a view. "" if several sinks may write to the same place.

    `name`: what the rows are called; it is the name of a view that has no other.

    >>> place_of("csv", {"path": "/data/out/"}, "drops") == place_of("parquet", {"path": "file:///data/./out"}, "rises")
    True
    """
    if format_.lower() == "memory":
        return f"the view {(option(options, 'view') or name).lower()}"
    path = option(options, "path")
    if not path:
        return ""
    if (folder := local_folder(re.sub(r"^file:/+", "file:///", path))) is not None:
        return os.path.realpath(folder.location)
    return re.sub(r"^s3[an]:", "s3:", path).rstrip("/")


def is_within(place: str, folder: str) -> bool:
    """Whether a place is a folder or below it. The folder may have wildcards, as that of a source.

    >>> is_within("/data/out", "/data"), is_within("/data/out", "/data/o*"), is_within("/data-out", "/data")
    (True, True, False)
    """
    return any(each == folder or fnmatchcase(each, folder) for each in accumulate(place.split("/"), "{}/{}".format))
