"""Object stores: passing faults are waited out, conditional writes survive lost answers, locations are understood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from tests.state.stores import remote_folder
from trimtab.errors import StateError
from trimtab.state import objects
from trimtab.state.files import Folder
from trimtab.state.objects import Objects

BUSY = "Generic S3 error: Error performing PUT in 2ms - Server returned error response: 503 Service Unavailable"


class Flaky:
    """obstore whose operations fail `faults` times before they work, or, with `after`, after they have worked."""

    def __init__(self, faults: int, error: Exception, *, after: bool = False) -> None:
        self.faults, self.error, self.after = faults, error, after
        self.exceptions = obstore.exceptions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        work = getattr(obstore, name)

        def operation(*given: Any, **options: Any) -> Any:
            if self.faults <= 0:
                return work(*given, **options)
            self.faults -= 1
            if self.after:
                work(*given, **options)
            raise self.error

        return operation


def flaky(faults: int, error: Exception | None = None, *, after: bool = False) -> Objects:
    found = Objects(MemoryStore(), "here")
    found.write("there", b"old")
    found._obstore = Flaky(faults, error or GenericError(BUSY), after=after)  # type: ignore[assignment]
    return found


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(objects, "LONGEST_PAUSE_S", 0.004)
    monkeypatch.setattr(objects, "RETRY_S", 0.2)


@pytest.mark.parametrize(
    "work",
    [
        lambda place: place.read("there"),
        lambda place: place.write("a", b"new"),
        lambda place: place.create("a", b"new"),
        lambda place: place.entries(),
        lambda place: place.below(),
        lambda place: place.exists("there"),
        lambda place: place.delete("there"),
        lambda place: place.delete_all(lambda: None),
    ],
)
def test_passing_faults_are_waited_out_up_to_a_budget(work: Callable[[Objects], object]) -> None:
    work(flaky(5))
    with pytest.raises(OSError, match="503"):
        work(flaky(10_000))


@pytest.mark.parametrize("status", ["400 Bad Request", "409 Conflict", "501 Not Implemented"])
def test_only_what_may_pass_is_tried_again(status: str) -> None:
    place = flaky(1, GenericError(f"Generic S3 error: Server returned non-2xx status code: {status}: <Error/>"))
    if status.startswith("5"):
        place.read("there")
        return
    with pytest.raises(OSError, match=status[:3]):
        place.read("there")


def test_a_conditional_write_whose_answer_is_lost_is_not_taken_for_another_writers() -> None:
    place = flaky(1, after=True)
    place.create("a", b"mine")
    assert place.read("a")[0] == b"mine"
    _, tag = place.read("there")
    place._obstore.faults = 1  # type: ignore[attr-defined]
    place.update("there", b"mine", tag)
    assert place.read("there")[0] == b"mine"
    with pytest.raises(FileExistsError):
        place.update("there", b"others", tag)
    with pytest.raises(FileExistsError):
        place.create("a", b"others")


def test_one_writer_of_many_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = remote_folder(monkeypatch)
    monkeypatch.setattr(Folder, "exists", lambda *_: False)  # all have checked before any of them wrote
    folder.write("a", b"first", replace=False)
    tag = folder.read_tagged("a")[1]
    with pytest.raises(FileExistsError):
        folder.write("a", b"second", replace=False)
    folder.update("a", b"third", tag)
    with pytest.raises(FileExistsError):
        folder.update("a", b"fourth", tag)
    assert folder.read("a") == b"third"


def test_a_container_is_no_credential() -> None:
    folder = Folder("abfss://container@account.dfs.core.windows.net/cp").child("streams")
    assert folder.shown == "abfss://container@account.dfs.core.windows.net/cp/streams"
    store = objects._open_store("abfss", "container@account.dfs.core.windows.net", "")
    assert store.config["container_name"] == "container"
    assert store.config["account_name"] == "account"


def test_hdfs_is_refused_and_the_hint_says_what_to_use() -> None:
    with pytest.raises(StateError) as caught:
        Folder("hdfs://cluster/cp").names()
    assert caught.value.code == "state.location"
    assert "hdfs" in caught.value.message
    assert "s3://" in caught.value.hint


def test_an_option_that_no_store_has_is_named() -> None:
    with pytest.raises(StateError, match="colour") as caught:
        Folder("s3://bucket/here?colour=red").names()
    assert caught.value.code == "state.location"


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    objects._open_store.cache_clear()
    objects.open_objects.cache_clear()
    with pytest.raises(StateError) as caught:
        Folder("s3://another-bucket/here").names()
    assert caught.value.code == "state.location"
    assert "trimtab[remote]" in caught.value.hint
