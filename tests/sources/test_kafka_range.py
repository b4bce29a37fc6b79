"""Reading a range with a consumer that plays a script: gaps, ends, silence and errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError

from trimtab.errors import InputError, JobError
from trimtab.sources.kafka_clients import Access, Client
from trimtab.sources.kafka_range import Stretch, pieces_of

PATIENCE_S = 0.05


@dataclass(frozen=True)
class Message:
    at: int
    wrong: int | None = None
    kind: int = TIMESTAMP_CREATE_TIME

    def error(self) -> KafkaError | None:
        return None if self.wrong is None else KafkaError(self.wrong)

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return b"%d" % self.at

    def timestamp(self) -> tuple[int, int]:
        return self.kind, -1 if self.kind == TIMESTAMP_NOT_AVAILABLE else self.at


@dataclass
class Scripted:
    """A consumer that hands out these messages, and then none."""

    batches: list[list[Message]]
    assigned: list[Any] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def list_topics(self, topic: str, _timeout_s: float) -> None:
        assert topic == "t"

    def assign(self, partitions: list[Any]) -> None:
        self.assigned += [(each.topic, each.partition, each.offset) for each in partitions]

    def consume(self, count: int, _timeout_s: float) -> list[Message]:
        self.asked.append(count)
        return self.batches.pop(0) if self.batches else []

    def get_watermark_offsets(self, _partition: Any, timeout: float) -> tuple[int, int]:
        assert timeout
        return 40, 60


def batch(*offsets: int, end: int | None = None, wrong: int | None = None) -> list[Message]:
    ends = [] if end is None else [Message(end, KafkaError._PARTITION_EOF)]
    return [*(Message(at) for at in offsets), *ends, *([] if wrong is None else [Message(-1, wrong)])]


def offsets_of(part: tuple[int, int], batches: Iterable[list[Message]]) -> list[int]:
    client, access = Client(Scripted(list(batches))), Access("here:1", patience_s=PATIENCE_S)
    pieces = list(pieces_of(client, access, Stretch("t", 3, *part)))
    assert client.handle.assigned == [("t", 3, part[0])]
    assert not client.handle.batches, "it stopped too early"
    found = [at for piece in pieces for at in piece.offsets.to_pylist()]
    assert [value for piece in pieces for value in piece.values.to_pylist()] == [b"%d" % at for at in found]
    assert [us for piece in pieces for us in piece.appended_us.to_pylist()] == [1_000 * at for at in found]
    return found


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([batch(5, 6), [], batch(7, 8, 9)], [5, 6, 7, 8, 9]),
        ([batch(6), batch(8, 12)], [6, 8]),
        ([batch(12)], []),
        ([batch(5, 7, end=10)], [5, 7]),
        ([batch(end=10)], []),
        ([batch(5, end=6), batch(6, end=10)], [5, 6]),
        ([batch(5, wrong=KafkaError._TRANSPORT), batch(wrong=KafkaError._ALL_BROKERS_DOWN), batch(9)], [5, 9]),
    ],
    ids=[
        "without gaps",
        "a message after the range",
        "nothing but a message after it",
        "the end of the partition",
        "nothing but the end",
        "an end that was none yet",
        "a connection that comes back",
    ],
)
def test_a_range_ends(batches: list[list[Message]], found: list[int]) -> None:
    assert offsets_of((5, 10), batches) == found


def test_it_is_known_whose_clock_said_when_messages_were_appended() -> None:
    by = {"broker": TIMESTAMP_LOG_APPEND_TIME, "producer": TIMESTAMP_CREATE_TIME, "nobody": TIMESTAMP_NOT_AVAILABLE}
    kinds = [("broker", "broker"), ("broker", "producer"), ("producer", "broker"), ("nobody", "nobody")]
    scripts = [[Message(5 + n, kind=by[who]) for n, who in enumerate(some)] for some in kinds]
    part = Stretch("t", 3, 5, 7)
    found = [list(pieces_of(Client(Scripted([each])), Access("here:1"), part)) for each in scripts]
    assert [piece.is_producers_clock for [piece] in found] == [False, True, True, True]
    assert found[-1][0].appended_us.to_pylist() == [None, None]


def test_no_more_messages_are_asked_for_than_the_range_may_have() -> None:
    consumer = Scripted([batch(5, 6), batch(9)])
    list(pieces_of(Client(consumer), Access("here:1"), Stretch("t", 0, 5, 10)))
    assert consumer.asked == [5, 3]


def test_an_empty_range_asks_for_nothing() -> None:
    consumer = Scripted([])
    assert list(pieces_of(Client(consumer), Access("here:1"), Stretch("t", 0, 5, 5))) == []
    assert consumer.asked == []


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ((5, 10), "topic t, partition 3: offsets 5 to 9 are gone, the earliest is 40 now"),
        ((5, 50), "topic t, partition 3: offsets 5 to 39 are gone, the earliest is 40 now"),
        ((70, 80), "topic t, partition 3: offsets 70 to 79 were there, but the partition ends at 60 now"),
    ],
)
def test_messages_that_are_gone_are_named(part: tuple[int, int], text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        offsets_of(part, [batch(wrong=KafkaError._AUTO_OFFSET_RESET)])
    assert caught.value.code == "source.lost"
    assert "new checkpoint" in caught.value.hint


def test_a_partition_that_stays_shorter_than_the_range_has_lost_messages() -> None:
    with pytest.raises(InputError, match="offsets 7 to 9 were there, but the partition ends at 7 now"):
        offsets_of((5, 10), [batch(5, 6, end=7)])


def test_silence_is_reported_when_patience_ends() -> None:
    with pytest.raises(JobError, match="Kafka at here:1 gave no answer for 0 s while reading topic t") as caught:
        offsets_of((5, 10), [batch(5, wrong=KafkaError._TRANSPORT)])
    assert caught.value.code == "source.unreachable"


@dataclass
class Skipping(Scripted):
    """A consumer that sees nothing, as of aborted transactions, until the server was asked so often for its end."""

    silences: int = 0
    end: int = 60

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        return [] if self.silences else super().consume(count, timeout_s)

    def get_watermark_offsets(self, _partition: Any, timeout: float) -> tuple[int, int]:
        assert timeout
        self.silences -= 1
        return 0, self.end


def test_a_long_stretch_without_messages_is_no_outage_while_the_server_answers() -> None:
    consumer = Skipping([batch(9)], silences=3)
    [piece] = pieces_of(Client(consumer), Access("here:1", patience_s=0.01), Stretch("t", 0, 5, 10))
    assert piece.offsets.to_pylist() == [9]


@pytest.mark.parametrize(("silences", "end"), [(1_000, 60), (1, 9)])
def test_it_is_one_if_it_never_ends_or_the_server_lacks_what_is_read(silences: int, end: int) -> None:
    consumer = Skipping([batch(9)], silences=silences, end=end)
    with pytest.raises(JobError) as caught:
        list(pieces_of(Client(consumer), Access("here:1", patience_s=0.01), Stretch("t", 0, 5, 10)))
    assert caught.value.code == "source.unreachable"


def test_a_refusal_is_reported_at_once() -> None:
    with pytest.raises(JobError, match="Kafka at here:1 refuses") as caught:
        offsets_of((5, 10), [batch(wrong=KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    assert caught.value.code == "source.access"
