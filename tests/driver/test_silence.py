"""The law of silence: rows that wait to be read don't make a partition idle, however often a job is down.

A source has partitions, each in order of time. A job reads some of it, is down, reads on. A row may be late only if its
partition really was silent for `idle_after` before it came.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.support.choices import Choices, chance
from tests.support.queries import DrawnChoices
from trimtab.driver.silence import SilenceWatch
from trimtab.engine.columns.watermark import StreamTime, TimeRule

IDLE_AFTER_S = 10.0
NAMES = ("a", "b", "c")
NEVER = "never"
"""A partition that never has a row."""
RULE = TimeRule(0, (*NAMES, NEVER), len(NAMES) + 1)
SECOND_US = 1_000_000


@dataclass
class Partition:
    """Rows as they came: when, and with which event time; the first `read` of them are read."""

    came_s: list[float] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)
    read: int = 0

    def add(self, now_s: float) -> None:
        self.came_s.append(now_s)
        self.times_us.append(int(now_s * SECOND_US))

    def silent_before(self, row: int) -> float:
        """How long nothing had come when a row came."""
        return self.came_s[row] - (self.came_s[row - 1] if row else 0.0)


def batch(choices: Choices, source: dict[str, Partition], limited: bool) -> dict[str, range]:
    """Some rows of each partition, or all of them."""
    found = {}
    for name, each in source.items():
        left = len(each.came_s) - each.read
        count = choices.below(left + 1) if limited else left
        found[name] = range(each.read, each.read + count)
        each.read += count
    return found


@given(st.data())
def test_a_row_is_late_only_after_a_silence_of_its_partition(data: st.DataObject) -> None:
    choices = DrawnChoices(data.draw)
    source = {name: Partition() for name in NAMES}
    time, now_s, committed_s = StreamTime(), 0.0, 0.0
    watch, since_s = SilenceWatch(IDLE_AFTER_S, committed_s), committed_s
    for _ in range(30):
        now_s += choices.below(8)
        for each in source.values():
            if chance(choices, 40):
                each.add(now_s)
        if chance(choices, 15):  # the job is down for a while, and starts again
            watch, since_s = SilenceWatch(IDLE_AFTER_S, committed_s), committed_s
            continue
        limited = chance(choices, 50)
        asked_s = now_s
        rows = batch(choices, source, limited)
        ended = [name for name, each in source.items() if each.read == len(each.came_s)]
        if len(ended) == len(source) and chance(choices, 50):
            watch.caught_up(asked_s)  # what the source said at that moment
        else:
            watch.caught_up(asked_s, [*ended, NEVER])
        late_before_us = time.watermark_us
        for name, places in rows.items():
            for row in places:
                is_late = late_before_us is not None and source[name].times_us[row] < late_before_us
                assert not is_late or source[name].silent_before(row) >= IDLE_AFTER_S, "a punctual row is late"
        newest_us = {name: source[name].times_us[places[-1]] for name, places in rows.items() if places}
        silence = watch.verdict(time.newest_us, RULE.partitions)
        assert (NEVER in silence.idle) == (asked_s - since_s >= IDLE_AFTER_S)
        time = time.after(newest_us, RULE, silence)
        waits = time.watermark_us is None and time.newest_us.keys() >= {*NAMES} and NEVER in silence.idle
        assert not waits, "a partition that never had a row holds nothing up once it is idle"
        watch.took(newest_us, now_s)
        committed_s = now_s


def test_a_partition_without_rows_is_idle_while_others_always_have_some() -> None:
    watch, rule = SilenceWatch(IDLE_AFTER_S, since_s=0.0), TimeRule(0, ("a", "b"), 2)
    watch.caught_up(12.0, ["b"])  # in a there is always more
    silence = watch.verdict(["a"], rule.partitions)
    assert StreamTime().after({"a": 7}, rule, silence).watermark_us == 7


def test_a_partition_that_is_new_has_not_been_silent_before() -> None:
    watch, rule = SilenceWatch(IDLE_AFTER_S, since_s=0.0), TimeRule(0, ("a", "b"), 2)
    watch.met(["a", "b"], ["a"], 95.0)
    watch.caught_up(100.0)
    silence = watch.verdict(["a"], rule.partitions)
    assert silence.idle == {"a"}
    assert not silence.is_unseen_idle
    assert StreamTime(5, {"a": 5}).after({"a": 7}, rule, silence).watermark_us == 5, "its rows may still come"
    watch.caught_up(105.0)
    assert watch.verdict(["a"], rule.partitions).idle == {"a", "b"}


def test_a_job_that_was_down_has_seen_no_silence() -> None:
    watch = SilenceWatch(IDLE_AFTER_S, since_s=0.0)
    assert not watch.verdict({"a"}).idle, "an hour later nothing was read yet"
    watch.caught_up(3_600.0)
    assert watch.verdict({"a"}).idle == {"a"}, "and here the source had nothing more"
