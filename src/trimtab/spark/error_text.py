"""The part of Spark's error messages that helps a reader: without plans, Java's stack and start-up lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SHOWN_LINES = 8
_STACK = re.compile(r"\s*(at |\.\.\. \d+ more)")
_PLAN = re.compile(r"\s*([+:] ?- |[:+]?- |'|!)")
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+", re.MULTILINE)
_CALL = re.compile(r"(\w+)\s*\(")
_EXCEPTION = re.compile(r"^: (?:[\w$]+\.)+[\w$]+: ", re.MULTILINE)


def spark_message(text: str) -> str:
    r"""The lines of an exception's text that are for its reader.

    >>> spark_message("An error occurred while calling o7.load.\n: java.lang.Exception: no such source\n\tat o.Q")
    'no such source'
    """
    text = text.split("JVM stacktrace", 1)[0]
    if found := _EXCEPTION.search(text):  # a Java exception that PySpark has no class for
        text = text[found.end() :]
    text = text.split("\nCaused by: ", 1)[0]
    text = _TRACEBACK.sub("", text)
    lines = (line.rstrip() for line in text.splitlines())
    kept = [line for line in lines if line and not _STACK.match(line) and not _PLAN.match(line)]
    return "\n  ".join(kept[:SHOWN_LINES])


def is_sparks(error: BaseException) -> bool:
    """Whether an exception was raised by Spark, or by Java."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def reason(error: BaseException) -> str:
    """An exception in one text: Spark's cut to what helps, others with their kind.

    >>> reason(ValueError("no such user"))
    'ValueError: no such user'
    """
    return spark_message(str(error)) if is_sparks(error) else f"{type(error).__name__}: {error}".removesuffix(": ")


@contextmanager
def noting_callers(queries: Mapping[str, str]) -> Iterator[None]:
    """Note on an exception of a Python function which queries may have called it: those with its name, or any."""
    try:
        yield
    except Exception as error:
        if is_sparks(error) and "Traceback (most" in str(error):
            frames = set(re.findall(r", in (\w+)", str(error).lower()))
            callers = [f"query {name}" for name, sql in queries.items() if frames & set(_CALL.findall(sql.lower()))]
            error.add_note(" or ".join(callers or [*(f"query {name}" for name in queries), "the DataFrame"]))
        raise
