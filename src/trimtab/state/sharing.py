"""What is made of the same objects is made once: queries with the same keys and rows have these in one place of a file.

Objects are the same if they are one and the same in memory, not if they are equal: to look is all that it takes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")
MOST = 64
"""How many results are remembered: those of about ten queries. What many share is found again and again, and stays."""


class Shared:
    """Results by the objects that they were made of; nobody may change either.

    >>> shared, numbers = Shared(), [3, 1, 2]
    >>> first = shared.once("sorted", [numbers], lambda: sorted(numbers))
    >>> shared.once("sorted", [numbers], lambda: sorted(numbers)) is first
    True
    >>> shared.once("sorted", [[3, 1, 2]], lambda: sorted(numbers)) is first
    False
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, tuple[Any, Sequence[object]]] = OrderedDict()  # the longest unused one first

    def once(self, what: Hashable, objects: Sequence[object], make: Callable[[], Result]) -> Result:
        """The result of `make`, which `what` and these objects determine."""
        key = (what, *map(id, objects))
        if key not in self._known:
            self._known[key] = make(), objects  # kept with it, so that no other object gets their place in memory
            if len(self._known) > MOST:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        found: Result = self._known[key][0]
        return found
