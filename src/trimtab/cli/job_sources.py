"""`source` of a stream in a job file: one that trimtab reads itself, made of the settings of the stream's section.

Nothing is contacted or read here: what a source refuses when it is made is a mistake of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from trimtab.cli.job_sections import OwnSource
from trimtab.cli.toml import MISSING, Section
from trimtab.driver.changed_source import OWN, check_start_at
from trimtab.errors import InputError, JobError
from trimtab.sources.file_partitions import checked
from trimtab.sources.file_rows import PARSERS, SCHEMAS
from trimtab.sources.files import Files
from trimtab.sources.kafka import Kafka, Value
from trimtab.sources.kafka_clients import wrong_options
from trimtab.sources.rate import KEYS_AT_MOST, Rate

STARTS = ("earliest", "latest")
COLUMNS = 'write names and types: "symbol BIGINT, ts TIMESTAMP"'
MOST_PARTITIONS = 100_000
_REFUSED: Mapping[str, tuple[str, str]] = {
    "select": ("trimtab reads this stream itself, and computes nothing before its queries", "compute it in the query"),
    "where": ("trimtab reads this stream itself, and filters nothing before its queries", "filter in the query"),
    "partition_by": ("the source knows its partitions", "leave it out"),
}
"""Settings of streams that Spark reads, and what to do instead."""
_PLACES = {"source.topic": "topics"} | {f"source.{key}": key for key in ("value", "schema", "start", "columns")}
"""The settings that errors of sources are about, by code."""

Absolute = Callable[[str], str]
Made = TypeVar("Made")


def read_source(section: Section, absolute: Absolute) -> OwnSource | None:
    """The source that a section names; None if there is a mistake, which is noted. `absolute` resolves paths."""
    kind = section.word("source", tuple(_READERS))
    for key, (message, hint) in _REFUSED.items():
        section.refuse(key, message, hint)
    return None if kind is None else _READERS[kind](section, absolute)


def _files(section: Section, absolute: Absolute) -> OwnSource | None:
    before = len(section.mistakes)
    path = section.text("path", needed="name the folder with the files")
    schema = section.text("schema")
    given: dict[str, Any] = {
        "format": section.word("format", tuple(PARSERS)),
        "partitions": section.texts("partitions") if "partitions" in section.values else None,
        "settled_after_s": section.number("settled_after_s"),
        "start": section.word("start", STARTS),
    }
    section.refuse("options", "files have none", "leave it out")
    if "schema" not in section.values and (given["format"] or "parquet") not in SCHEMAS:
        section.wrong("schema", MISSING, f"{given['format']} files don't say which types their columns have: {COLUMNS}")
    _noted(section, "partitions", lambda: checked(given["partitions"]))
    if path is None or len(section.mistakes) > before:
        return None
    place = absolute(path)
    made = _noted(section, "path" if schema is None else "schema", lambda: Files(place, schema=schema, **_some(given)))
    return None if made is None else OwnSource("files", made, None if schema is None else made.schema, path=place)


def _kafka(section: Section, _: Absolute) -> OwnSource | None:
    before = len(section.mistakes)
    servers = section.text("servers", needed='write the addresses: servers = "broker:9092"')
    topics: Any = None
    if isinstance(section.values.get("topics"), list):
        topics = section.texts("topics")
    else:
        topics = section.text("topics", needed='name the topics: topics = ["ticks"]')
    given: dict[str, Any] = {
        "value": section.word("value", get_args(Value)),
        "schema": section.text("schema"),
        "start": section.moment("start", STARTS),
        "columns": section.texts("columns"),
        "options": section.options("options"),
        "patience_s": section.number("patience_s"),
    }
    value = given["value"] or "json"
    if "schema" not in section.values and value in ("json", "avro"):
        how = COLUMNS if value == "json" else """write Avro's own: schema = '{"type": "record", ...}'"""
        section.wrong("schema", MISSING, how)
    for name, reason in wrong_options(given["options"]).items():
        section.wrong(f"options.{name}", reason, "the options are those of librdkafka: see its CONFIGURATION.md")
    if servers is None or topics is None or len(section.mistakes) > before:
        return None
    made = _noted(section, "", lambda: Kafka(servers, topics, **_some(given)))
    return None if made is None else OwnSource("kafka", made, made.schema, servers=servers)


def _rate(section: Section, _: Absolute) -> OwnSource | None:
    before = len(section.mistakes)
    rows_per_s = section.number("rows_per_s")
    given: dict[str, Any] = {
        "rows": section.number("rows", whole=True),
        "partitions": section.whole("partitions", most=MOST_PARTITIONS),
        "keys": section.whole("keys", most=KEYS_AT_MOST),
        "skew": section.number("skew"),
        "seed": section.number("seed", whole=True),
        "start": section.moment("start"),
    }
    for key in ("path", "format", "schema", "options"):
        section.refuse(key, "rate makes its rows up: k BIGINT, ts TIMESTAMP, x DOUBLE, n BIGINT", "leave it out")
    if rows_per_s == 0:
        section.wrong("rows_per_s", "0 rows a second are no rate", "leave it out if all rows are there at once")
    if "rows_per_s" not in section.values and "rows" not in section.values:
        section.wrong("rows_per_s", MISSING, "write how many rows appear each second, or how many rows there are")
    if len(section.mistakes) > before:
        return None
    made = _noted(section, "rows_per_s", lambda: Rate(rows_per_s, **_some(given)))
    return None if made is None else OwnSource("rate", made, made.schema)


def read_start_at(section: Section, *, is_source: bool) -> dict[str, Any]:
    """Where the stream goes on that was read another way, as `Job.stream` takes it; empty if it isn't written."""
    if not isinstance(section.values.get("start_at"), dict):
        found: Any = section.word("start_at", (OWN,))
    else:
        table = section.section("start_at")
        found = None if table is None else dict(table.values)
    if found is not None:
        name = section.place.rpartition(".")[2]
        _noted(section, "start_at", lambda: check_start_at(name, found, is_source=is_source))
    return {} if found is None else {"start_at": found}


_READERS: Mapping[str, Callable[[Section, Absolute], OwnSource | None]] = {
    "files": _files,
    "kafka": _kafka,
    "rate": _rate,
}
OWN_SOURCES = tuple(_READERS)


def _some(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are written."""
    return {name: value for name, value in given.items() if value is not None}


def _noted(section: Section, key: str, make: Callable[[], Made]) -> Made | None:
    """What is made; None if it is refused, which is noted: at the setting that the error is about, or else at `key`."""
    try:
        return make()
    except InputError as error:
        section.wrong("schema", error.message, COLUMNS)
    except JobError as error:
        section.wrong(_PLACES.get(error.code, key), error.message, error.hint)
    return None
