"""The placement of the next batch, changed from several threads."""

from __future__ import annotations

import itertools
import threading
import time
from functools import partial

import pytest

from trimtab.deciding.placement import Placement
from trimtab.driver.placing import Placing, change_all
from trimtab.errors import JobError

PATIENCE_S = 30.0


def test_an_impossible_change_is_raised_at_once_and_changes_no_stream() -> None:
    small, large = (Placing(Placement.even(engines, 8), may_spread=True) for engines in (2, 4))
    with pytest.raises(JobError, match="engines are 0 to 1"):
        change_all([large, small], lambda placement: placement.moved({0: 3}))
    assert large.next_placement() == Placement.even(4, 8)
    assert small.next_placement() == Placement.even(2, 8)


def test_a_change_is_tried_after_those_that_wait() -> None:
    placing = Placing(Placement.even(4, 8), may_spread=True)
    placing.change(lambda placement: placement.resized(2))
    with pytest.raises(JobError, match="can't move to engine 3"):
        placing.change(lambda placement: placement.moved({0: 3}))
    assert placing.next_placement().engines == 2


def test_moves_and_resizes_from_several_threads_never_fail_in_a_batch() -> None:
    """Whatever comes between, a move is refused where it is asked for, or works in the batch."""
    placing = Placing(Placement.even(4, 64), may_spread=True)
    ended, refused, taken = threading.Event(), [0], [0]

    def move() -> None:
        while not ended.is_set():
            try:
                placing.change(lambda placement: placement.moved({0: 3}))
                taken[0] += 1
            except JobError:
                refused[0] += 1

    def resize() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            placing.change(partial(Placement.resized, engines=2 + number % 3))

    threads = [threading.Thread(target=each) for each in (move, resize, move)]
    for thread in threads:
        thread.start()
    try:
        until_s = time.monotonic() + PATIENCE_S  # how threads take turns is up to the machine
        for number in itertools.count():
            placing.next_placement()  # raises if a change that was accepted is impossible
            if (number >= 2000 and refused[0] and taken[0]) or time.monotonic() > until_s:
                break
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert refused[0]
    assert taken[0]
