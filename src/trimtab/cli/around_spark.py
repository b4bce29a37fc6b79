"""Around Spark: whether it and Java are installed, its errors as errors of a job, its own log out of the way."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import JobError, TrimtabError, noted_as
from trimtab.spark.error_text import is_sparks, spark_message

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_HINT = f"install Java {OLDEST} or newer (for example openjdk-{OLDEST}-jre-headless) and set JAVA_HOME to its folder"


def check_java(environ: Mapping[str, str] | None = None) -> None:
    """Look for Java as Spark does: in JAVA_HOME, then on the path.

    Raises JobError `job.java` if there is none, it is too old, or it doesn't run.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    if home:
        java: str | None = str(Path(home) / "bin" / "java")
        if not os.access(str(java), os.X_OK):
            raise JobError("job.java", f"JAVA_HOME is {home}, and there is no bin/java in it", _HINT)
    else:
        java = shutil.which("java", path=environ.get("PATH"))
    if java is None:
        raise JobError("job.java", "Spark needs Java, and there is none: no JAVA_HOME, no java on the path", _HINT)
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise JobError("job.java", f"{java} can't be run: {error}", _HINT) from error
    version = java_version(answer.stderr + answer.stdout)
    if version is None:
        first = (answer.stderr + answer.stdout).strip().split("\n", 1)[0] or f"status {answer.returncode}"
        raise JobError("job.java", f"{java} -version doesn't print its version: {first}", _HINT)
    if version < OLDEST:
        raise JobError("job.java", f"{java} is Java {version}, and Spark needs {OLDEST} or newer", _HINT)


def check_spark() -> None:
    """Check that Spark and Java are installed before Spark is started, which would answer with a stack trace.

    Raises JobError `job.spark` or `job.java`.
    """
    for package in ("pyspark", "pandas"):
        if importlib.util.find_spec(package) is None:
            raise JobError("job.spark", f"Spark is missing: there is no {package}", "pip install 'trimtab[spark]'")
    check_java()


def java_version(text: str) -> int | None:
    """The major version in what `java -version` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_202"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


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
