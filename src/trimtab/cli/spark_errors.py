"""The part of Spark's error messages that helps a reader: without plans, Java's stack and start-up lines."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import JobError, TrimtabError

SHOWN_LINES = 8
_STACK = re.compile(r"\s*(at |\.\.\. \d+ more)")
_PLAN = re.compile(r"\s*([+:] ?- |[:+]?- |'|!)")
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+", re.MULTILINE)
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


@contextmanager
def spark_errors(place: str) -> Iterator[None]:
    """Turn Spark's exceptions inside the block into a JobError `job.spark` that names the place."""
    try:
        yield
    except TrimtabError:
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        message, hint = spark_message(str(error)), ""
        if "DATA_SOURCE_NOT" in message:
            hint = 'if it needs a package: [spark.conf] "spark.jars.packages" = "group:name:version"'
        raise JobError("job.spark", f"{place}: {message}", hint) from error


@contextmanager
def stderr_to_file() -> Iterator[Path]:
    """Send the stderr of processes that are started inside the block to a file; yield its path.

    Java keeps the stderr that it was started with: its log would otherwise be printed over the live view.
    """
    descriptor, name = tempfile.mkstemp(prefix="trimtab-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
