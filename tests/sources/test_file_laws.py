"""The law of files: whatever appears, crashes and restarts, each file has one position, and keeps it."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.found_files import Clock, put
from trimtab.sources import file_log
from trimtab.sources.files import Files
from trimtab.sources.source import Range
from trimtab.state.files import Folder


class DiedError(Exception):
    """The process died here."""


class World:
    """A folder in which files appear, and a job that looks for them, dies and starts again."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.dice, self.clock = root, random.Random(seed), Clock(10_000.0)
        self.written: dict[str, set[int]] = {"a": set(), "b": set()}
        self.given: dict[tuple[str, int], int] = {}  # the number in the file at each position, once it was given out
        for name in self.written:
            (root / "in" / name).mkdir(parents=True)
        self.start()

    def start(self) -> None:
        file_log._content.cache_clear()
        files = Files(str(self.root / "in"), format="csv", schema="n BIGINT", partitions=["a", "b"], clock=self.clock)
        self.source = files.opened(Folder(str(self.root / "log")))

    def appear(self, number: int) -> None:
        """A file is moved in, under any name, with any modification time."""
        self.clock.now_s += self.dice.random() * 3
        name = self.dice.choice("ab")
        modified_s = self.clock.now_s - self.dice.choice([0, 1, 100])
        unfinished = put(self.root / "in" / name / ".unfinished", b"n\n%d\n" % number, modified_s=modified_s)
        os.rename(unfinished, unfinished.with_name(f"{self.dice.random()}.csv"))
        self.written[name].add(number)

    def look(self) -> None:
        for name, end in self.source.latest().items():
            rows = self.source.read(Range(name, 0, end)).table["n"].to_pylist()
            assert len(rows) == end
            for position, number in enumerate(rows):
                assert self.given.setdefault((name, position), number) == number

    def die_while_looking(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Before or after the first or second write: the one of new files, or of a merge."""
        write, left, is_after = Folder.write, self.dice.randint(1, 2), self.dice.random() < 0.5

        def mortal(self: Folder, name: str, data: bytes, **options: Any) -> None:
            nonlocal left
            left -= 1
            if left or is_after:
                write(self, name, data, **options)
            if not left:
                raise DiedError

        with monkeypatch.context() as patched, suppress(DiedError):
            patched.setattr(Folder, "write", mortal)
            self.source.latest()
        self.start()


@pytest.mark.parametrize("seed", range(4))
def test_each_file_has_one_position_and_keeps_it(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "MERGED", 3)
    world = World(tmp_path, seed)
    for number in range(40):
        world.appear(number)
        match world.dice.randrange(6):
            case 0 | 1 | 2:
                world.look()
            case 3:
                world.start()
            case 4:
                world.die_while_looking(monkeypatch)
    world.clock.now_s += 10
    world.look()
    for name, numbers in world.written.items():
        found = [number for (partition, _), number in world.given.items() if partition == name]
        assert sorted(found) == sorted(numbers)
