"""Streams from Kafka: topics whose partitions workers read side by side, by the package confluent-kafka.

Partitions are named "topic:number" (no topic's name has a colon), positions are offsets. Nothing is ever committed to
Kafka: the checkpoint has the offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import numpy as np
import pyarrow as pa

from trimtab.errors import JobError
from trimtab.rowwise.ddl import parse_columns
from trimtab.sources.avro_values import AvroValues
from trimtab.sources.json_values import JsonValues
from trimtab.sources.kafka_clients import Access, Setting, borrowed_consumer, check_options, close_idle
from trimtab.sources.kafka_offsets import earliest_of, latest_of, partitions_of, since
from trimtab.sources.kafka_range import COLUMNS, Piece, Stretch, pieces_of
from trimtab.sources.source import UNDECODED, Clock, Partition, Range, Rows
from trimtab.sources.values import BytesValues, Decoder, StringValues

Value = Literal["json", "avro", "string", "bytes"]


class Kafka:
    """Topics of Kafka, as a source.

    Args:
        servers: addresses as "host:port", with commas between them.
        topics: the name of a topic, or several.
        value: what the values of messages are. "json": objects; see `json_values` for times, and for what can't be
            decoded. "avro": records; see `avro_values`. "string" and "bytes": the one column `value`.
        schema: the columns of JSON, as `pa.Schema` or as Spark's DDL ("ts TIMESTAMP, price DOUBLE"); for Avro the
            schema's own JSON text.
        start: where a job begins that never read the topics: "earliest", "latest", or the first message of a time. It
            counts until a batch is committed; "latest" at once, by one without messages.
        columns: what else of each message becomes a column: "key", "topic", "partition", "offset", "timestamp",
            "headers". They follow those of the value.
        options: those of librdkafka, for instance "security.protocol". With "isolation.level": "read_uncommitted",
            messages of open and aborted transactions are read, too.
        patience_s: how long reading goes on trying while no server answers; ten times that while one answers, and has
            nothing but aborted transactions.

    A message without a value (a tombstone) is null as "string" and "bytes". As JSON and Avro it is left out: it says
    that a key was deleted, and has no columns to say more.

    `appended_us` is the timestamp of the message: by the topic's `message.timestamp.type`, that of its producer
    (`Clock.WRITER`) or that of the server.

    A range that is read again gives the same rows, as long as Kafka has the messages. Of a compacted topic it may give
    fewer: what was compacted in between is gone, and no error.

    A partition that is added to a topic later has messages before it is found: with start="latest", begin such a one
    at its `earliest`.

    >>> source = Kafka("localhost:9092", "ticks", schema="ts TIMESTAMP, price DOUBLE", columns=["offset"])
    >>> source.schema.names
    ['ts', 'price', 'offset']

    Raises JobError: `source.value`, `source.schema`, `source.start`, `source.topic`, `source.columns`,
    `source.option`.
    """

    at_once = 8  # a small range is mostly waited for

    def __init__(
        self,
        servers: str,
        topics: str | Sequence[str],
        *,
        value: Value = "json",
        schema: pa.Schema | str | None = None,
        start: Literal["earliest", "latest"] | datetime = "earliest",
        columns: Sequence[str] = (),
        options: Mapping[str, Setting] | None = None,
        patience_s: float = 60.0,
    ) -> None:
        self.servers = servers
        self.topics = (topics,) if isinstance(topics, str) else tuple(topics)
        self.start = _checked_start(start)
        self.columns = tuple(columns)
        check_options(options or {})
        self._access = Access(servers, tuple(sorted((options or {}).items())), patience_s)
        self._decoder = _decoder(value, schema)
        self._schema = _with_columns(self._decoder.schema, self.columns)
        if not self.topics or not all(self.topics) or len(set(self.topics)) < len(self.topics):
            raise JobError("source.topic", f"{topics!r} aren't different names of topics", "name at least one, once")

    def __repr__(self) -> str:
        """Without the options, which may hold passwords."""
        return f"Kafka({self.servers!r}, {', '.join(self.topics)!r})"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._schema

    def part_of(self, partition: str) -> str:
        """The topic: one that is added later begins at `start`, and a partition of it at its first message."""
        return parse_partition_name(partition)[0]

    def partitions(self) -> Mapping[str, Partition]:
        """The partitions that there are now, by name."""
        found = partitions_of(self._access, self.topics)
        earliest = earliest_of(self._access, found)
        match self.start:
            case datetime():
                starts = since(self._access, found, self.start)
            case "latest":
                starts = latest_of(self._access, found)
            case _:
                starts = earliest
        return {
            partition_name(each.topic, each.partition): Partition(earliest[each], max(starts[each], earliest[each]))
            for each in found
        }

    def latest(self) -> Mapping[str, int]:
        """Where each partition ends now, without messages of transactions that are still open."""
        found = latest_of(self._access, partitions_of(self._access, self.topics))
        return {partition_name(each.topic, each.partition): offset for each, offset in found.items()}

    def real_ends(self) -> Mapping[str, int]:
        """Where each partition ends, with messages of transactions that are still open."""
        found = latest_of(self._access, partitions_of(self._access, self.topics), committed_only=False)
        return {partition_name(each.topic, each.partition): offset for each, offset in found.items()}

    def close(self) -> None:
        """Close the connections that this process has to the servers and doesn't use; the next use opens new ones."""
        close_idle(self._access)

    def read(self, part: Range) -> Rows:
        """The rows of a range. See `kafka_range.pieces_of` for the errors."""
        topic, number = parse_partition_name(part.partition)
        stretch = Stretch(topic, number, part.start, part.end)
        none = pa.array([], pa.int64())
        rows = [Rows(self.schema.empty_table(), none, positions=none)]
        with borrowed_consumer(self._access) as client:
            # A piece is decoded while librdkafka's own threads fetch the next ones.
            rows += [self._rows(part, piece) for piece in pieces_of(client, self._access, stretch, self.columns)]
        bad = [each.undecoded for each in rows if each.undecoded is not None]
        return Rows(
            pa.concat_tables([each.table for each in rows]),
            pa.concat_arrays([each.appended_us for each in rows]),
            pa.concat_tables(bad) if bad else None,
            Clock.WRITER if any(each.clock is Clock.WRITER for each in rows) else Clock.SOURCE,
            pa.concat_arrays([each.positions for each in rows]),
        )

    def _rows(self, part: Range, piece: Piece) -> Rows:
        if piece.values.null_count and not self._decoder.takes_null:
            piece = _some(piece, piece.values.is_valid())
        decoded = self._decoder.decode(piece.values)
        undecoded = None
        if decoded.reasons:
            wrong = np.fromiter(decoded.reasons, np.int64, len(decoded.reasons))
            bad = [piece.offsets.take(pa.array(wrong)), piece.values.take(pa.array(wrong))]
            names, reasons = [part.partition] * len(wrong), list(decoded.reasons.values())
            undecoded = pa.table([pa.array(names, pa.string()), *bad, pa.array(reasons, pa.string())], schema=UNDECODED)
            is_good = np.ones(len(piece.values), bool)
            is_good[wrong] = False
            piece = _some(piece, pa.array(is_good))
        columns = [*decoded.table.columns, *piece.more.values()]
        clock = Clock.WRITER if piece.is_producers_clock else Clock.SOURCE
        return Rows(pa.table(columns, schema=self.schema), piece.appended_us, undecoded, clock, piece.offsets)


def partition_name(topic: str, number: int) -> str:
    """The name of a partition, such as "ticks:3"."""
    return f"{topic}:{number}"


def parse_partition_name(name: str) -> tuple[str, int]:
    """The topic and the number in a partition's name.

    >>> parse_partition_name(partition_name("a.b-c", 12))
    ('a.b-c', 12)
    """
    topic, _, number = name.rpartition(":")
    return topic, int(number)


def _some(piece: Piece, chosen: pa.Array) -> Piece:
    more = {name: column.filter(chosen) for name, column in piece.more.items()}
    offsets, values, appended_us = (each.filter(chosen) for each in (piece.offsets, piece.values, piece.appended_us))
    return Piece(offsets, values, appended_us, more, piece.is_producers_clock)


def _decoder(value: str, schema: pa.Schema | str | None) -> Decoder:
    match value, schema:
        case "json", pa.Schema():
            return JsonValues(pa.schema([(column.name, column.type) for column in schema]))  # a field may be missing
        case "json", str():
            return JsonValues(parse_columns(schema, zone="UTC"))
        case "avro", str():
            return AvroValues(schema)
        case "string", None:
            return StringValues()
        case "bytes", None:
            return BytesValues()
        case "json", _:
            raise JobError(
                "source.schema", "JSON needs a schema", 'schema="ts TIMESTAMP, price DOUBLE", or a pa.Schema'
            )
        case "avro", _:
            raise JobError("source.schema", "Avro needs its schema, as a text in JSON", "schema=Path(...).read_text()")
        case "string" | "bytes", _:
            message = f"{value} has the one column value, and no schema"
            raise JobError("source.schema", message, "leave schema out, or give value='json'")
    raise JobError("source.value", f"{value!r} is no kind of value", "one of json, avro, string, bytes")


def _with_columns(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    if unknown := [name for name in columns if name not in COLUMNS]:
        message = f"messages of Kafka have no {', '.join(unknown)}"
        raise JobError("source.columns", message, f"columns may be {', '.join(COLUMNS)}")
    names = [*schema.names, *columns]
    if double := sorted({name for name in names if names.count(name) > 1}):
        message = f"{', '.join(double)} would be there twice"
        raise JobError("source.columns", message, "leave it out of columns, or out of the schema")
    return pa.schema([*schema, *(pa.field(name, COLUMNS[name][0]) for name in columns)])


def _checked_start(start: str | datetime) -> str | datetime:
    hint = 'start is "earliest", "latest", or a datetime with a zone'
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise JobError("source.start", f"{start} has no zone", hint)
    elif start not in ("earliest", "latest"):
        raise JobError("source.start", f"{start!r} is no place to start", hint)
    return start
