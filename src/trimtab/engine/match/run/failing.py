"""The errors that users get when a kernel fails."""

from __future__ import annotations

import pyarrow as pa

from trimtab.engine.match.ir.query import MatchQuery, SkipTo
from trimtab.engine.match.kernels.interface import ERROR_SKIP_FIRST, ERROR_SKIP_MISSING, Failure
from trimtab.engine.operator import is_internal
from trimtab.errors import MatchError, ThreadLimitError, TrimtabError


def failure_error(failure: Failure, query: MatchQuery, keys: pa.Table, thread_limit: int) -> TrimtabError:
    """The error for a kernel's failure; `keys` are the partition columns of each key."""
    found = keys.slice(failure.error_key, 1).to_pylist()[0].items()
    name = ", ".join(f"{k}={v!r}" for k, v in found if not is_internal(k)) or "(all rows)"
    skip = query.skip
    target = f"{skip.side.value} {skip.name}" if isinstance(skip, SkipTo) else ""
    if failure.error == ERROR_SKIP_FIRST:
        return MatchError(
            "match.skip-first-row",
            f"AFTER MATCH SKIP TO {target} goes back to the first row of the match, for key {name}",
            "the same match would be found for ever: skip to a later variable, or PAST LAST ROW",
        )
    if failure.error == ERROR_SKIP_MISSING:
        return MatchError(
            "match.skip-missing",
            f"AFTER MATCH SKIP TO {target}: the match has no row of that variable, for key {name}",
            "skip to a variable that every match has, or PAST LAST ROW",
        )
    return ThreadLimitError(name, thread_limit, failure.error_count)
