"""Messages come from sources in turn, and each source knows only its own: a source's part of a column is independent.

Kernels go through one source's messages, `range(start, keys.size, sources)`, with that source's arrays. That is faster
than changing the source with every message, and gives the same result.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from trimtab.machine_code.kernel import kernel


@kernel
def first_of(source: int, messages: int, sources: int) -> int:
    """Where in a column the first message of a source is, if `messages` came before the column.

    >>> [first_of(source, 7, 3) for source in range(3)]
    [2, 0, 1]
    """
    return (source - messages) % sources
