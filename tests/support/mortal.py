"""A process that may die at any effect: before or after a file is written or deleted, or a sink takes rows.

What is in files stays, everything else is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.state.files import Folder


class DiedError(Exception):
    """The process ended here."""


@dataclass
class Life:
    """How many more steps the process takes; None: it doesn't die. Each effect is two steps, one on either side."""

    steps_left: int | None = None

    def step(self) -> None:
        """Go on, or die here."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.steps_left = None
                raise DiedError


class MortalFolder(Folder):
    """A folder whose user may die before and after each change of a file: there is one life for the whole test."""

    __slots__ = ()
    life: ClassVar = Life()

    def child(self, name: str) -> MortalFolder:
        """The folder of that name in this one."""
        return MortalFolder(Folder.child(self, name).location)

    def write(self, *arguments: Any, **options: Any) -> None:
        """Write a file."""
        self.life.step()
        Folder.write(self, *arguments, **options)
        self.life.step()

    def update(self, *arguments: Any, **options: Any) -> None:
        """Replace a file."""
        self.life.step()
        Folder.update(self, *arguments, **options)
        self.life.step()

    def publish(self, *arguments: Any, **options: Any) -> None:
        """Move a file into the folder."""
        self.life.step()
        Folder.publish(self, *arguments, **options)
        self.life.step()

    def delete(self, name: str) -> None:
        """Delete a file."""
        self.life.step()
        Folder.delete(self, name)
        self.life.step()
