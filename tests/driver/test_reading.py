"""Where a batch reads its source from, and up to where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.driver.reading import beginnings, next_ranges
from trimtab.errors import InputError
from trimtab.sources.source import Partition, Range


def test_a_partition_that_was_read_goes_on_and_a_new_one_begins_at_its_start() -> None:
    partitions = {"a": Partition(0, 0), "b": Partition(3, 7)}
    assert beginnings({"a": 5}, partitions) == {"a": 5, "b": 7}


def test_rows_that_the_source_has_dropped_are_an_error() -> None:
    with pytest.raises(InputError, match="partition a is read on at position 5, but the source begins at 9") as raised:
        beginnings({"a": 5}, {"a": Partition(9, 9)})
    assert raised.value.code == "source.lost"


def test_nothing_new_gives_no_ranges() -> None:
    assert next_ranges({"a": 5}, {"a": 5}) == ()
    assert next_ranges({"a": 5}, {}) == (), "a partition that the source doesn't name now"


def test_without_a_limit_everything_is_read() -> None:
    assert next_ranges({"a": 0, "b": 2}, {"a": 4, "b": 3}) == (Range("a", 0, 4), Range("b", 2, 3))


BACKLOGS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), max_size=6)


@given(BACKLOGS, st.integers(1, 100))
def test_a_limit_is_used_up_and_no_partition_gets_more_than_it_has(backlog: dict[str, int], most: int) -> None:
    ranges = next_ranges(dict.fromkeys(backlog, 10), {name: 10 + count for name, count in backlog.items()}, most)
    assert sum(each.end - each.start for each in ranges) == min(most, sum(backlog.values()))
    assert all(each.start == 10 and 10 < each.end <= 10 + backlog[each.partition] for each in ranges)


@given(BACKLOGS, st.integers(6, 100))
def test_no_partition_with_rows_is_left_out(backlog: dict[str, int], most: int) -> None:
    ranges = next_ranges(dict.fromkeys(backlog, 0), backlog, most)
    assert {each.partition for each in ranges} == {name for name, count in backlog.items() if count}
