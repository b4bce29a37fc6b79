from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator

import pytest

from trimtab.worker import pauses
from trimtab.worker.pauses import avoid_pauses


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    frozen = gc.get_freeze_count()
    yield
    gc.callbacks[:] = [each for each in gc.callbacks if each is not pauses._watch]
    if not frozen:
        gc.unfreeze()


def test_what_survives_a_long_collection_is_left_out_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONG_S", 0.0)
    avoid_pauses()
    before, kept = gc.get_freeze_count(), [[number] for number in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


def test_after_a_short_collection_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONG_S", 1e9)
    avoid_pauses()
    before, kept = gc.get_freeze_count(), [[number] for number in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() == before, f"{len(kept)} objects"


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
def test_connections_go_on_waiting_where_the_process_has_a_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        socket.setdefaulttimeout(3.0)
        try:
            avoid_pauses()
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(connection.fileno())
