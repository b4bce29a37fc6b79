"""Errors of Spark as errors of a job, and Spark's own log out of the way."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import JobError, TrimtabError, noted_as
from trimtab.spark.error_text import is_sparks, spark_message


@contextmanager
def spark_errors(place: str) -> Iterator[None]:
    """Turn Spark's exceptions inside the block into a JobError `job.spark` that names the place."""
    try:
        yield
    except TrimtabError:
        raise
    except Exception as error:
        if not is_sparks(error):
            raise
        message, hint = spark_message(str(error)), ""
        if "DATA_SOURCE_NOT" in message:
            hint = 'if it needs a package: [spark.conf] "spark.jars.packages" = "group:name:version"'
        raise noted_as(JobError("job.spark", f"{place}: {message}", hint), error) from error


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
