"""What is known of a batch's columns: queries that read the same rows compute what they share once.

Results are found by the memory of the columns that they were computed of, so a query needn't know what others call
these columns, or whether there are others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from trimtab.engine.columns.arrays import single

Result = TypeVar("Result")


class Memo:
    """Results of functions of one batch's columns; nobody may change them.

    >>> memo, column = Memo(), pa.array([3, 1, 2])
    >>> first = memo.once(list, [column])
    >>> memo.once(list, [column]) is first, memo.once(list, [pa.array([3, 1, 2])]) is first
    (True, False)
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Any, list[pa.Array]]] = {}
        self._last: dict[Hashable, tuple[Hashable, Any, object]] = {}

    def once(
        self, make: Callable[..., Result], columns: Sequence[pa.Array | pa.ChunkedArray], *more: Hashable
    ) -> Result:
        """`make(*columns, *more)`, each column as one array; computed if it isn't known yet."""
        arrays = [single(column) for column in columns]
        places = [_place(array) for array in arrays]
        if None in places:
            return make(*arrays, *more)
        key = (make, *places, *more)
        if key not in self._known:
            # The arrays, so that no other column gets their memory.
            self._known[key] = make(*arrays, *more), arrays
        found: Result = self._known[key][0]
        return found

    def last(
        self,
        what: Hashable,
        columns: Sequence[pa.Array | pa.ChunkedArray],
        objects: Sequence[object],
        make: Callable[[], Result],
    ) -> Result:
        """The result of `make`, if these columns and these very objects are those of the last time, that one's.

        For what is large: results that nobody may want again would fill the memory, and new memory takes time.
        """
        arrays = [single(column) for column in columns]
        places = [_place(array) for array in arrays]
        if None in places:
            return make()
        key = (*places, *map(id, objects))
        if what not in self._last or self._last[what][0] != key:
            self._last[what] = key, make(), (arrays, objects)
        found: Result = self._last[what][1]
        return found


def _place(array: pa.Array) -> Hashable | None:
    """Where an array is in memory; None: that doesn't say what is in it, as nested types have offsets within."""
    kind = array.type
    if pa.types.is_nested(kind):
        return None
    addresses = tuple(None if buffer is None else buffer.address for buffer in array.buffers())
    words = _place(array.dictionary) if pa.types.is_dictionary(kind) else None
    return kind, len(array), array.offset, addresses, words
