"""The whole error tree on one page.

Every error that trimtab raises on purpose is a `TrimtabError` with a stable `code`; `str(error)` says what is
wrong, where, and what to do. All of them survive pickling, because Spark workers send them to the driver that way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar


class TrimtabError(Exception):
    """The root: catch this to catch everything trimtab raises on purpose."""

    code = "trimtab"


class QueryError(TrimtabError):
    """A query has a mistake; the place is underlined in its text.

    `start` and `stop` are character offsets into `sql` (`stop` is exclusive).

    >>> print(QueryError("query.column", "no column named prise", "SELECT prise FROM t", 7, 12, "did you mean price?"))
    error[query.column]: no column named prise
      query:1:8
        1 | SELECT prise FROM t
          |        ^^^^^ did you mean price?
    """

    code = "query"

    def __init__(self, code: str, message: str, sql: str = "", start: int = 0, stop: int = 0, hint: str = "") -> None:
        super().__init__(code, message, sql, start, stop, hint)
        self.code = code
        self.message, self.sql, self.hint = message, sql, hint
        self.start, self.stop = start, max(stop, start)
        self.where = "query"  # or the name of the file that has it

    def __str__(self) -> str:
        """The message, the place, the line with the place underlined, and the hint."""
        head = f"error[{self.code}]: {self.message}"
        if not self.sql:
            return f"{head}\n  hint: {self.hint}" if self.hint else head
        start = min(self.start, len(self.sql))
        line_start = self.sql.rfind("\n", 0, start) + 1
        line_end = self.sql.find("\n", start)
        line_end = len(self.sql) if line_end < 0 else line_end
        line, column = self.sql.count("\n", 0, start) + 1, start - line_start
        width = max(1, min(self.stop, line_end) - start)
        number = str(line)
        margin = " " * len(number)
        text = self.sql[line_start:line_end]
        # Tabs are kept, so that the carets stay under the text whatever the terminal makes of a tab.
        lead = "".join("\t" if c == "\t" else " " for c in text[:column])
        carets = "^" * width + (f" {self.hint}" if self.hint else "")
        place = f"{self.where}:{line}:{column + 1}"
        return f"{head}\n  {place}\n    {number} | {text}\n    {margin} | {lead}{carets}"


class HintedError(TrimtabError):
    """What is wrong and what to do about it, with a code of its own for each mistake."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code, self.message, self.hint = code, message, hint

    def __str__(self) -> str:
        """The message and the hint."""
        return f"error[{self.code}]: {self.message}" + (f"\n  hint: {self.hint}" if self.hint else "")


class InputError(HintedError):
    """The input is not what the query needs: a missing table, a wrong type, rows out of order."""

    code = "input"


class MatchError(HintedError):
    """A match ran into something the standard calls an exception, for instance SKIP TO its own first row.

    What to do: the message names the clause; SKIP PAST LAST ROW never fails.
    """

    code = "match"


class ThreadLimitError(TrimtabError):
    """A key has more matches under way at once than the limit allows.

    What to do: bound the pattern (WITHIN, `{n,m}`, SKIP PAST LAST ROW) or raise `max_threads`.
    """

    code = "match.threads"

    def __init__(self, key: str, limit: int, breaches: int) -> None:
        super().__init__(key, limit, breaches)
        self.key, self.limit, self.breaches = key, limit, breaches

    def __str__(self) -> str:
        """Which key, how many, what to do."""
        return (
            f"error[{self.code}]: {self.breaches} key(s) exceeded {self.limit} live partial matches, first {self.key}"
            "\n  hint: bound the pattern with WITHIN or {n,m}, use AFTER MATCH SKIP PAST LAST ROW, or raise max_threads"
        )


class OperatorError(TrimtabError):
    """A user's own operator failed, returned something other than it declares, or is not a valid operator.

    `method` and `key` say where: in which call, for which key. An exception of the user's code is the `__cause__`.

    What to do: the message names the call; run the same rows of that key through the logic by hand.

    >>> print(OperatorError("operator.failed", "overheating", "KeyError: 'ts'", "", "on_rows", "sensor = 'a'"))
    error[operator.failed]: overheating: on_rows for sensor = 'a': KeyError: 'ts'
    """

    code = "operator"

    def __init__(self, code: str, operator: str, message: str, hint: str = "", method: str = "", key: str = "") -> None:
        super().__init__(code, operator, message, hint, method, key)
        self.code, self.operator, self.message, self.hint = code, operator, message, hint
        self.method, self.key = method, key

    def __str__(self) -> str:
        """Which operator, which call, which key, what happened, what to do."""
        call = f"{self.method} for {self.key}" if self.method and self.key else self.method
        text = ": ".join(part for part in (self.operator, call, self.message) if part)
        return f"error[{self.code}]: {text}" + (f"\n  hint: {self.hint}" if self.hint else "")


class StateError(HintedError):
    """A checkpoint can't be read, written or locked: damaged, of a newer format, missing, or held by another job.

    What to do: the message names the file; nothing in the checkpoint has been changed.
    """

    code = "state"


class JobError(HintedError):
    """A job is not valid: a stream or sink is missing, a query was changed, a setting is wrong.

    What to do: the message names the part of the job.
    """

    code = "job"


class BalanceError(HintedError):
    """A router, planner, controller or simulation was asked for something it can't do.

    What to do: the message names the argument and the values it may have.
    """

    code = "balance"


# Where it happened ---------------------------------------------------------------------------

Raised = TypeVar("Raised", bound=Exception)


@contextmanager
def noting(place: str) -> Iterator[None]:
    """Note on an exception raised inside the block where that was; `places_of` reads the notes."""
    try:
        yield
    except Exception as error:
        error.add_note(place)
        raise


def noted_as(new: Raised, old: BaseException) -> Raised:
    """The new exception, with the notes of the one that it is raised for."""
    for place in getattr(old, "__notes__", ()):
        new.add_note(place)
    return new


def places_of(error: BaseException) -> str:
    """Where an error was raised, such as "query drops, batch 7 of stream ticks"; "" if nothing is known.

    >>> try:
    ...     with noting("batch 7 of stream ticks"), noting("query drops"):
    ...         raise TrimtabError
    ... except TrimtabError as error:
    ...     places_of(error)
    'query drops, batch 7 of stream ticks'
    """
    return ", ".join(getattr(error, "__notes__", ()))
