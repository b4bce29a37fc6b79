"""What the loop asks of a source and hands to a pipeline, step by step: both are doubles, and nothing runs on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.driver.batch_plan import Setup
from trimtab.driver.changed_source import StartAt
from trimtab.driver.reading import Read
from trimtab.driver.silence import SilenceWatch
from trimtab.engine.columns.watermark import TimeRule
from trimtab.errors import InputError
from trimtab.sources.source import Partition, Range, positions_of
from trimtab.spark import source_loop
from trimtab.spark.pipeline import Pipeline, StoppingError
from trimtab.spark.source_loop import SourceLoop
from trimtab.worker.orders import Head


@dataclass
class Ends:
    """A source that is only asked where its partitions end, and where a job begins: there, or at their first row."""

    ends: dict[str, int]
    begins_at_end: bool = False
    identity: str = "Ends"

    def partitions(self) -> Mapping[str, Partition]:
        return {name: Partition(0, end if self.begins_at_end else 0) for name, end in self.ends.items()}

    def latest(self) -> Mapping[str, int]:
        return dict(self.ends)

    def part_of(self, partition: str) -> str:
        return partition.partition(":")[0] if ":" in partition else ""


@dataclass
class Committed:
    """Stands for a driver: what is committed, and a batch that was begun."""

    known: Any = None
    unfinished: Any = None
    read_upto: dict[str, int] = field(default_factory=dict)

    def positions(self, source: str) -> Mapping[str, int]:
        assert source == "Ends"
        return self.read_upto


@dataclass
class Batches:
    """Stands for a pipeline: it commits what it is given. While nothing is there to read, the next of `events` happens;
    after the last one it stops."""

    events: list[Callable[[], Any]] = field(default_factory=list)
    limit: Any = None
    driver: Committed = field(default_factory=Committed)
    named: set[str] = field(default_factory=set)
    read: list[Range] = field(default_factory=list)
    named_when_read: list[set[str]] = field(default_factory=list)
    caught_up: list[set[str] | None] = field(default_factory=list)
    caught_up_s: list[float] = field(default_factory=list)

    def take_ranges(self, read: Read) -> Head:
        self.read += read.ranges
        self.named_when_read.append(set(self.named))
        self.driver.read_upto = {**self.driver.read_upto, **{each.partition: each.end for each in read.ranges}}
        self.driver.unfinished = None
        return Head(positions_of(read.ranges))

    def know_partitions(self, names: Iterable[str]) -> None:
        self.named |= set(names)

    def is_caught_up(self, at_s: float, partitions: Iterable[str] | None = None) -> None:
        self.caught_up_s.append(at_s)
        self.caught_up.append(None if partitions is None else set(partitions))

    def tick(self, *_: Any) -> None:
        if not self.events:
            raise StoppingError
        self.events.pop(0)()


def worked(source: Ends, batches: Batches, *, available_now: bool = False, start_at: StartAt = None) -> list[Range]:
    """Let a loop work to its end; returns all ranges that were committed so far."""
    rows: Any = SimpleNamespace(source=source, spark=None, spark_schema=None)
    pipeline: Any = batches
    loop = SourceLoop(pipeline, rows, interval_s=None, available_now=available_now, start_at=start_at)
    loop._work()
    if loop._error is not None:
        raise loop._error
    return batches.read


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_loop, "POLL_S", 0.0)


def test_what_comes_after_the_first_look_is_read_however_often_the_source_says_where_its_end_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_loop, "LOOK_S", 0.0)
    source = Ends({"a": 5, "b": 0}, begins_at_end=True)
    batches = Batches([lambda: source.ends.update(a=8), lambda: source.ends.update(b=2)])
    rows = [each for each in worked(source, batches) if each.end > each.start]
    assert rows == [Range("a", 5, 8), Range("b", 0, 2)]


def test_a_job_that_begins_at_the_end_reads_at_its_next_start_what_has_come_since() -> None:
    source, batches = Ends({"a": 5, "b": 0}, begins_at_end=True), Batches()
    assert worked(source, batches, available_now=True) == [Range("a", 5, 5), Range("b", 0, 0)]
    source.ends |= {"a": 8, "b": 2, "c": 1}
    assert worked(source, batches, available_now=True)[2:] == [Range("a", 5, 8), Range("b", 0, 2), Range("c", 0, 1)]


def test_where_a_stream_begins_is_committed_with_its_first_rows_if_it_is_the_same_at_every_start() -> None:
    assert worked(Ends({"a": 5, "b": 0}), Batches(), available_now=True) == [Range("a", 0, 5), Range("b", 0, 0)]


def test_a_partition_that_the_source_names_for_the_first_time_is_read_and_waited_for_at_once() -> None:
    source = Ends({"a": 1})
    batches = Batches([lambda: source.ends.update(a=2, b=3)])
    assert worked(source, batches) == [Range("a", 0, 1), Range("a", 1, 2), Range("b", 0, 3)]
    assert batches.named_when_read == [{"a"}, {"a", "b"}]


def test_positions_that_a_user_gives_are_committed_before_the_first_rows() -> None:
    source, batches = Ends({"a": 5}), Batches()
    assert worked(source, batches, available_now=True, start_at={"a": 5}) == [Range("a", 5, 5)]
    source.ends |= {"a": 8, "b": 2}
    again = worked(source, batches, available_now=True, start_at={"a": 5})
    assert again[1:] == [Range("a", 5, 8), Range("b", 0, 2)], "b is no mistake, it came later"
    without = Batches()
    worked(Ends({"a": 5}), without, available_now=True, start_at={"a": 5})
    assert worked(source, without, available_now=True)[1:] == [Range("a", 5, 8), Range("b", 0, 2)]


class Growing(Ends):
    """It gets a partition with a row whenever it has said which ones there are, a few times."""

    def partitions(self) -> Mapping[str, Partition]:
        found = super().partitions()
        if len(self.ends) < 4:
            self.ends |= {f"p{len(self.ends)}": 1}
        return found


@pytest.mark.parametrize("available_now", [True, False])
def test_partitions_that_come_while_the_source_is_looked_at_are_waited_for_in_the_first_batch(
    available_now: bool,
) -> None:
    batches = Batches()
    read = worked(Growing({"a": 1}), batches, available_now=available_now)
    assert batches.named_when_read == [{"a", "p1", "p2", "p3"}]
    assert {each.partition for each in read} == {"a", "p1", "p2", "p3"}


def test_everything_that_is_there_now_has_settled_before_it_is_known_where_it_ends() -> None:
    @dataclass
    class Settling(Ends):
        def settle(self, wait: Callable[[float], bool]) -> None:
            assert not wait(0.0)
            self.ends["a"] = 5

    assert worked(Settling({"a": 0}), Batches(), available_now=True)[-1] == Range("a", 0, 5)


def test_a_topic_that_is_new_begins_where_the_user_says_and_a_new_partition_of_an_old_one_at_its_first_row() -> None:
    source = Ends({"a:0": 5, "a:1": 3, "b:0": 7}, begins_at_end=True)
    batches = Batches(driver=Committed(read_upto={"a:0": 5}))
    assert worked(source, batches, available_now=True) == [Range("b:0", 7, 7), Range("a:1", 0, 3)]
    assert worked(source, Batches(driver=Committed(read_upto={"a:0": 5})), available_now=True, start_at={"b:0": 4}) == [
        *(Range("b:0", 4, 4), Range("a:1", 0, 3), Range("b:0", 4, 7))
    ]


@pytest.mark.parametrize("start_at", [{"a:0": 1}, {"b:0": 8}, {"b:0": 4, "c:0": 1}])
def test_positions_for_a_topic_that_is_new_have_to_be_there(start_at: StartAt) -> None:
    source, batches = Ends({"a:0": 5, "b:0": 7}), Batches(driver=Committed(read_upto={"a:0": 5}))
    with pytest.raises(InputError, match="start_at") as raised:
        worked(source, batches, start_at=start_at)
    assert raised.value.code == "source.start-at"


def test_positions_that_were_given_to_an_earlier_start_may_stay() -> None:
    source, batches = Ends({"a:0": 5, "a:1": 3}), Batches(driver=Committed(read_upto={"a:0": 4, "c:0": 9}))
    expected = [Range("a:0", 4, 5), Range("a:1", 0, 3)]
    assert worked(source, batches, available_now=True, start_at={"a:0": 1, "c:0": 2}) == expected


def test_a_new_topic_begins_where_the_user_says_also_after_a_batch_that_was_begun() -> None:
    source = Ends({"a:0": 5, "b:0": 7}, begins_at_end=True)
    begun = SimpleNamespace(ranges=(Range("a:0", 0, 4),))
    batches = Batches(driver=Committed(unfinished=begun))
    assert worked(source, batches, available_now=True) == [Range("a:0", 0, 4), Range("b:0", 7, 7), Range("a:0", 4, 5)]


def test_a_batch_that_reads_all_partitions_to_their_end_has_caught_up_with_all() -> None:
    source, batches = Ends({"a": 5, "b": 0}), Batches()
    worked(source, batches)
    assert batches.caught_up[0] is None
    limited = Batches(limit=SimpleNamespace(rows=3))
    worked(source, limited)
    assert limited.caught_up[:2] == [{"b"}, None]


def test_a_partition_is_only_silent_up_to_when_its_source_knows_all_that_came() -> None:
    source, now, later, began_s = Ends({"a": 5}), Batches(), Batches(), time.time()
    worked(source, now)
    assert all(began_s <= at_s <= time.time() for at_s in now.caught_up_s)
    source.complete_s = 7.0  # type: ignore[attr-defined]
    worked(source, later)
    assert set(later.caught_up_s) == {7.0}


def test_a_pipeline_asks_who_is_idle_among_all_partitions_that_it_knows_and_how_long_it_has_known_them() -> None:
    pipeline: Any = Pipeline.__new__(Pipeline)  # without Spark
    pipeline.driver, pipeline._setup = SimpleNamespace(known=None), Setup("ts", TimeRule(0), {})
    pipeline._silence = SilenceWatch(60.0, since_s=0.0)
    pipeline.know_partitions(["a"])
    pipeline.is_caught_up(time.time(), ["a"])
    assert pipeline._verdict().idle == {"a"}
    pipeline.know_partitions(["a", "b"])
    pipeline.is_caught_up(time.time(), ["a", "b"])
    assert pipeline._verdict().idle == {"a"}, "b has just come"


def test_partitions_are_aligned_from_the_first_batch_of_a_start_on() -> None:
    source, batches = Ends({"a": 10_000, "b": 10_000}), Batches(limit=SimpleNamespace(rows=1_000))
    batches.driver.read_upto = {"a": 0, "b": 0}
    batches.driver.known = SimpleNamespace(newest_us={"a": 0, "b": 3_600_000_000})
    taken = {each.partition: each.end for each in worked_once(source, batches)}
    assert taken["a"] > 5 * taken["b"] > 0


def worked_once(source: Ends, batches: Batches) -> list[Range]:
    """The ranges of the first batch."""
    take = batches.take_ranges

    def taking(read: Read) -> Head:
        if batches.read:
            raise StoppingError
        return take(read)

    batches.take_ranges = taking  # type: ignore[method-assign]
    return worked(source, batches)


def test_a_partition_whose_rows_may_not_be_read_at_the_moment_waits_for_them() -> None:
    source, batches = Ends({"a": 3}), Batches()
    source.real_ends = lambda: {"a": 5}  # type: ignore[attr-defined]
    batches.driver.read_upto = {"a": 5}
    assert worked(source, batches, available_now=True) == []
    batches.events = [lambda: source.ends.update(a=6)]
    assert worked(source, batches) == [Range("a", 5, 6)]
    source.ends, batches.read = {"a": 4}, []
    with pytest.raises(InputError, match="positions 4 to 5 were there"):
        worked(source, batches)


def test_a_partition_that_ends_before_what_was_read_of_it_ends_the_stream() -> None:
    source, batches = Ends({"a": 3}), Batches()
    batches.driver.read_upto = {"a": 5}
    with pytest.raises(InputError, match="positions 3 to 4 were there") as raised:
        worked(source, batches)
    assert raised.value.code == "source.lost"
