"""How partitions share a batch: exact totals, nobody starves, all is read in the end, and event times stay together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.control.sharing import PartitionBacklog, measured_density, ranges
from trimtab.errors import BalanceError

backlogs_of = st.builds(
    lambda start, rows, newest, density: PartitionBacklog(
        next=start, latest=start + rows, newest_us=newest, rows_per_s=density
    ),
    st.integers(0, 10**15),
    st.integers(0, 10) | st.integers(0, 10**12),
    st.none() | st.integers(-(10**15), 2 * 10**15),
    st.none() | st.floats(0, 1e12) | st.just(5e-324),
)
partitions = st.dictionaries(st.text("abcdefgh", max_size=3), backlogs_of, max_size=12)


@given(st.integers(1, 20) | st.integers(1, 10**13), partitions, st.integers(0, 10**6))
def test_totals_are_exact_and_nobody_reads_what_is_not_there(
    limit: int, backlogs: dict[str, PartitionBacklog], turn: int
) -> None:
    shares = ranges(limit, backlogs, turn=turn)
    assert shares.keys() == backlogs.keys()
    assert sum(shares.values()) == min(limit, sum(each.rows for each in backlogs.values()))
    assert all(0 <= shares[name] <= backlogs[name].rows for name in backlogs)
    waiting = [name for name in backlogs if backlogs[name].rows]
    if limit >= len(waiting):
        assert all(shares[name] >= 1 for name in waiting)


@given(st.integers(1, 4), partitions, st.integers(0, 100))
def test_with_fewer_rows_than_partitions_all_have_had_a_turn_after_as_many_batches(
    limit: int, backlogs: dict[str, PartitionBacklog], first: int
) -> None:
    waiting = {name for name, each in backlogs.items() if each.rows}
    read = set()
    for turn in range(first, first + len(backlogs)):
        read |= {name for name, count in ranges(limit, backlogs, turn=turn).items() if count}
    assert read == waiting


@given(st.integers(1, 300), st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 400)), st.integers(0, 5_000))
def test_all_is_read_in_the_end_in_as_few_batches_as_the_limit_allows(
    limit: int, rows: dict[str, int], lead_s: int
) -> None:
    now = {
        name: PartitionBacklog(next=0, latest=count, newest_us=lead_s * 10**6 * number, rows_per_s=1.0 + number)
        for number, (name, count) in enumerate(rows.items())
    }
    batches = 0
    while any(each.rows for each in now.values()):
        shares = ranges(limit, now, turn=batches)
        assert sum(shares.values()) > 0
        now = {name: replace(each, next=each.next + shares[name]) for name, each in now.items()}
        batches += 1
    assert batches == -(-sum(rows.values()) // limit)


def test_partitions_of_unlike_density_are_read_up_to_the_same_event_time() -> None:
    densities = {"a": 1.0, "b": 10.0, "c": 100.0}
    leads_s = {"a": 0.0, "b": 600.0, "c": 3_000.0}
    now = {
        name: PartitionBacklog(next=0, latest=10**6, newest_us=int(leads_s[name] * 1e6), rows_per_s=density)
        for name, density in densities.items()
    }
    spreads = []
    for turn in range(30):
        times = {name: leads_s[name] + each.next / densities[name] for name, each in now.items()}
        spreads.append(max(times.values()) - min(times.values()))
        now = {
            name: replace(
                each,
                next=each.next + count,
                newest_us=int((leads_s[name] + (each.next + count) / densities[name]) * 1e6),
            )
            for (name, each), count in zip(now.items(), ranges(5_000, now, turn=turn).values(), strict=True)
        }
    assert spreads[0] == 3_000.0
    assert spreads[-1] < 200.0, "what is left is the share that everyone gets"


def test_who_is_ahead_reads_less_and_who_is_behind_more() -> None:
    behind = PartitionBacklog(next=0, latest=10_000, newest_us=0, rows_per_s=1.0)
    ahead = replace(behind, newest_us=100_000_000)
    shares = ranges(1_000, {"ahead": ahead, "behind": behind})
    assert shares == {"ahead": 450, "behind": 550}
    assert ranges(1_000, {"ahead": replace(ahead, newest_us=10**12), "behind": behind}) == {"ahead": 50, "behind": 950}


def test_what_one_does_not_need_goes_to_the_others() -> None:
    full = PartitionBacklog(next=0, latest=10_000, newest_us=0, rows_per_s=1.0)
    assert ranges(1_000, {"a": full, "b": replace(full, latest=10), "c": full}) == {"a": 495, "b": 10, "c": 495}


def test_without_times_and_densities_shares_follow_the_backlogs() -> None:
    assert ranges(900, {"a": PartitionBacklog(next=0, latest=1_000), "b": PartitionBacklog(next=5, latest=2_005)}) == {
        "a": 300,
        "b": 600,
    }


def test_a_partition_without_a_backlog_holds_nobody_up() -> None:
    idle = PartitionBacklog(next=7, latest=7, newest_us=0, rows_per_s=1.0)
    busy = PartitionBacklog(next=0, latest=10_000, newest_us=10**12, rows_per_s=1.0)
    assert ranges(1_000, {"idle": idle, "one": busy, "two": busy}) == {"idle": 0, "one": 500, "two": 500}


def test_no_partitions_read_nothing() -> None:
    assert ranges(10, {}) == {}


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(BalanceError) as raised:
        ranges(0, {})
    assert raised.value.code == "control.limits"


def test_a_density_is_averaged_over_batches() -> None:
    density = None
    for _ in range(10):
        density = measured_density(density, 50, 10_000_000)
    assert density == pytest.approx(5.0)
