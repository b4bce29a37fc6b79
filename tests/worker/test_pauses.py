from __future__ import annotations

import gc
import os
import socket
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.worker import pauses
from trimtab.worker.pauses import avoid_pauses


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    frozen = gc.get_freeze_count()
    monkeypatch.setattr(pauses, "_watch", pauses._Watch())
    yield
    gc.callbacks[:] = [each for each in gc.callbacks if each is not pauses._watch]
    if not frozen:
        gc.unfreeze()


def test_what_survives_a_long_collection_is_left_out_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONG_S", 0.0)
    avoid_pauses()
    before, kept = gc.get_freeze_count(), [[number] for number in range(1_000)]
    gc.collect()
    avoid_pauses()
    assert gc.get_freeze_count() > before + len(kept) // 2, "earlier ones may be freed at any time"


def test_after_a_short_collection_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONG_S", 1e9)
    avoid_pauses()
    before, kept = gc.get_freeze_count(), [[number] for number in range(1_000)]
    gc.collect()
    avoid_pauses()
    assert gc.get_freeze_count() <= before, f"{len(kept)} objects; earlier ones may be freed at any time"


class Cycle:
    """Refers to itself, and to as many objects as are said."""

    def __init__(self, objects: int = 0) -> None:
        self.me, self.more = self, [[number] for number in range(objects)]


def test_a_cycle_that_a_task_has_made_is_freed_however_long_collections_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONG_S", 0.0)
    avoid_pauses()
    cycle = Cycle()
    gc.collect()  # as Python does by itself in the middle of a task
    left = weakref.ref(cycle)
    del cycle
    gc.collect()  # as Spark does after it
    assert left() is None


def test_cycles_that_were_left_out_are_freed_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONG_S", 0.0)
    gc.collect()
    avoid_pauses()
    size, left = len(gc.get_objects()) + gc.get_freeze_count(), []
    for _ in range(3):
        cycle = Cycle(size)  # it outlives the task that made it
        left.append(weakref.ref(cycle))
        gc.collect()
        avoid_pauses()
        del cycle
    gc.collect()
    avoid_pauses()
    assert sum(each() is not None for each in left) <= 1


def test_all_tasks_of_a_process_share_one_watch() -> None:
    avoid_pauses()
    avoid_pauses()
    assert gc.callbacks.count(pauses._watch) == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program choose")
def test_connections_acknowledge_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        there, _ = server.accept()
        one, other = socket.socketpair()  # not of TCP: they are left alone
        with there, one, other:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            avoid_pauses()
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
            connection.sendall(b"still open")
            assert there.recv(10) == b"still open"


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program choose")
def test_what_is_no_connection_any_more_is_left_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match="Socket operation on non-socket"):
            pauses._acknowledge(file.fileno())
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program choose")
def test_connections_go_on_waiting_where_the_process_has_a_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        socket.setdefaulttimeout(3.0)
        try:
            avoid_pauses()
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(connection.fileno())
