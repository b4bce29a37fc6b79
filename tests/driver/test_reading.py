"""Where a batch reads its source from, and up to where."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.driver.reading import (
    FASTEST_GROWTH,
    Read,
    SourceReader,
    as_first_seen,
    beginnings,
    beginnings_to_keep,
    not_begun,
    with_beginnings,
)
from trimtab.errors import InputError
from trimtab.sources.source import Partition, Range, positions_of


def test_a_partition_that_was_read_goes_on_and_a_new_job_begins_at_the_start() -> None:
    partitions = {"a": Partition(0, 0), "b": Partition(3, 7)}
    assert beginnings({"a": 5}, partitions) == {"a": 5, "b": 7}
    assert beginnings({}, partitions) == {"a": 0, "b": 7}


def test_a_start_that_is_given_counts_where_nothing_was_read() -> None:
    partitions = {"a": Partition(0, 0), "b": Partition(3, 7)}
    assert beginnings({}, partitions, {"a": 4, "b": 5}) == {"a": 4, "b": 5}
    assert beginnings({"a": 5}, partitions, {"a": 4, "b": 5}) == {"a": 5, "b": 5}


def test_a_partition_that_came_later_is_read_from_its_beginning() -> None:
    read = SourceReader(1.0).next_read({"a": 7, "b": 7}, {"a": 9, "b": 7}, None)
    first = with_beginnings(read, {}, {"a": 7, "b": 7})
    assert first.ranges == (Range("a", 7, 9), Range("b", 7, 7)), "b has no rows yet, and its beginning is kept"
    partitions, positions = {name: Partition(0, 9) for name in ("t:a", "t:b", "u:c")}, {"t:a": 9}
    new = not_begun(partitions, positions, lambda name: name[0])
    assert beginnings(positions, as_first_seen(partitions, new)) == {"t:a": 9, "t:b": 0, "u:c": 9}


def test_a_source_that_begins_at_its_end_begins_where_the_first_look_found_it() -> None:
    first = {"a": Partition(0, 5)}
    later = as_first_seen({"a": Partition(2, 9), "b": Partition(3, 7)}, first)
    assert later == {"a": Partition(2, 5), "b": Partition(3, 3)}, "b came later: all of it is new"
    with pytest.raises(InputError, match="it has dropped 1 positions"):
        beginnings({}, as_first_seen({"b": Partition(4, 9)}, later))


@pytest.mark.parametrize(
    ("partition", "end_before", "is_kept"),
    [
        (Partition(0, 9), 9, True),  # it begins at its end
        (Partition(0, 9), 7, True),
        (Partition(0, 4), 9, True),  # or at a time, as it may be
        (Partition(0, 0), 0, True),  # nobody knows whether this is its end
        (Partition(0, 0), 9, False),
        (Partition(3, 3), 9, False),
    ],
)
def test_beginnings_are_kept_that_a_later_start_might_not_find_again(
    partition: Partition, end_before: int, is_kept: bool
) -> None:
    found = beginnings_to_keep({"a": partition}, {"a": end_before}).ranges
    assert found == ((Range("a", partition.start, partition.start),) if is_kept else ())


def test_beginnings_that_a_user_has_given_are_always_kept() -> None:
    found = beginnings_to_keep({"a": Partition(0, 0), "b": Partition(0, 0)}, {"a": 9, "b": 9}, {"a": 4, "b": 7})
    assert found.ranges == (Range("a", 4, 4), Range("b", 7, 7))


def test_rows_that_the_source_has_dropped_are_an_error() -> None:
    with pytest.raises(InputError, match="partition a is read on at position 5, but the source begins at 9") as raised:
        beginnings({"a": 5}, {"a": Partition(9, 9)})
    assert raised.value.code == "source.lost"


def test_nothing_new_gives_no_ranges() -> None:
    reader = SourceReader(1.0)
    assert reader.next_read({"a": 5}, {"a": 5}, 10) == Read((), frozenset("a"), 0.0, 0.0, 10)
    assert reader.next_read({"a": 5}, {}, 10).ranges == (), "a partition that the source doesn't name now"


def test_a_partition_that_ends_before_what_was_read_is_another_one() -> None:
    words = "partition a is read on at position 5: positions 3 to 4 were there, but it ends at 3 now"
    with pytest.raises(InputError, match=words) as raised:
        SourceReader(1.0).next_read({"a": 5, "b": 0}, {"a": 3, "b": 9}, 10)
    assert raised.value.code == "source.lost"


def test_without_a_limit_everything_is_read() -> None:
    read = SourceReader(1.0).next_read({"a": 0, "b": 2}, {"a": 4, "b": 3}, None)
    assert read == Read((Range("a", 0, 4), Range("b", 2, 3)), frozenset("ab"), 5.0, 0.0, None)


def test_it_is_known_which_partitions_are_read_to_their_end() -> None:
    begin, latest = {"a": 0, "b": 2, "c": 9}, {"a": 1_000, "b": 3, "c": 9}
    assert SourceReader(1.0).next_read(begin, latest, 100).ended == {"b", "c"}


def test_a_limit_is_in_rows_however_many_a_position_has() -> None:
    reader = SourceReader(math.inf)
    begin, latest = {"a": 0, "b": 0}, {"a": 100, "b": 100}
    first = reader.next_read(begin, latest, 500)
    assert first.ranges == (Range("a", 0, 1), Range("b", 0, 1)), "a position of each, as they may be large"
    reader.took(first.ranges, 100, {"a": 0, "b": 0})
    second = reader.next_read({"a": 1, "b": 1}, latest, 400)
    assert (positions_of(second.ranges), second.rows, second.waiting) == (8, 400.0, 190 * 50.0)
    assert positions_of(reader.next_read({"a": 1, "b": 1}, latest, 3).ranges) == 1, "never nothing"


def test_a_partition_that_is_ahead_waits_for_the_others() -> None:
    reader = SourceReader(1.0)
    reader.took((Range("a", 0, 100), Range("b", 0, 100)), 200, {"a": 0, "b": 0})
    reader.took((Range("a", 100, 200), Range("b", 100, 200)), 200, {"a": 10_000_000, "b": 1_000_000_000})
    read = reader.next_read({"a": 200, "b": 200}, {"a": 10_000, "b": 10_000}, 1_000)
    taken = {each.partition: each.end - each.start for each in read.ranges}
    assert taken["a"] > 10 * taken["b"] > 0


def test_what_earlier_starts_have_read_counts_from_the_first_batch_on() -> None:
    begin, latest = {"a": 200, "b": 200}, {"a": 10_000, "b": 10_000}
    read = SourceReader(1.0, {"a": 0, "b": 3_600_000_000}).next_read(begin, latest, 1_000)
    taken = {each.partition: each.end - each.start for each in read.ranges}
    assert taken["a"] > 5 * taken["b"] > 0


def test_a_batch_without_positions_teaches_nothing() -> None:
    reader = SourceReader(math.inf)
    reader.took((Range("a", 7, 7),), 0, {})
    assert positions_of(reader.next_read({"a": 7}, {"a": 1_000}, 500).ranges) == 1


def test_rows_that_come_after_a_trickle_are_read_as_the_limit_says() -> None:
    reader = SourceReader(1.0)
    reader.took((Range("a", 0, 1),), 1, {})
    assert positions_of(reader.next_read({"a": 1}, {"a": 10_000}, 500).ranges) == 500


@given(
    st.sampled_from([1.0, math.inf]),
    st.lists(st.tuples(st.integers(0, 100_000), st.integers(1, 1_000_000)), max_size=12),
)
def test_positions_grow_no_faster_than_the_limit_whatever_rows_they_had(
    rows_each: float, batches: list[tuple[int, int]]
) -> None:
    reader, at, last, limit = SourceReader(rows_each), 0, 0, 10_000
    surely = 1 if math.isinf(rows_each) else limit  # of Kafka a position is a row at most
    for rows, waiting in batches:
        read = reader.next_read({"a": at}, {"a": at + waiting}, limit).ranges
        taken = positions_of(read)
        assert taken <= max(surely, FASTEST_GROWTH * last)
        reader.took(read, min(rows, taken) if rows_each == 1.0 else rows, {})
        at, last = at + taken, taken


BACKLOGS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), max_size=6)


@given(BACKLOGS, st.integers(1, 100))
def test_a_limit_is_used_up_and_no_partition_gets_more_than_it_has(backlog: dict[str, int], most: int) -> None:
    latest = {name: 10 + count for name, count in backlog.items()}
    read = SourceReader(1.0).next_read(dict.fromkeys(backlog, 10), latest, most).ranges
    assert positions_of(read) == min(most, sum(backlog.values()))
    assert all(each.start == 10 and 10 < each.end <= 10 + backlog[each.partition] for each in read)
