"""The Spark of a demonstration: a check that it can run, and a session on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trimtab.cli.around_spark import check_java, spark_errors, stderr_to_file
from trimtab.errors import JobError
from trimtab_lab.demo.steps import step

_HINT = "or leave Spark out: trimtab demo --without-spark"


def check_spark() -> None:
    """Raise JobError if Spark can't run on this machine."""
    try:
        check_java()
    except JobError as error:
        raise JobError(error.code, error.message, f"{error.hint};\n  {_HINT}") from error
    try:
        import trimtab.spark.session  # noqa: F401 - only to check that it can be imported
    except ModuleNotFoundError as error:
        raise JobError("job.spark", f"Spark is missing ({error})", f"pip install 'trimtab[spark]', {_HINT}") from error


@contextmanager
def demo_session(master: str, *, plain: bool) -> Iterator[Any]:
    """A session on this machine; Java's log goes to a file, which is named if something fails."""
    from trimtab.spark.session import start_session

    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    with step(f"Starting Spark on {master}", plain=plain), spark_errors("the session"), stderr_to_file() as log:
        spark = start_session("trimtab demo", master, conf)
    try:
        yield spark
    except Exception:
        print(f"Spark's own log is {log}", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        log.unlink(missing_ok=True)
        raise
    else:
        log.unlink(missing_ok=True)
    finally:
        spark.stop()
