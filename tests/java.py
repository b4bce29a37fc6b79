"""How tests run Java: Spark's JVMs live for seconds here, and start dozens of times.

    python -m tests.java

writes an archive of Spark's classes, as they lie in memory once they are loaded: a JVM that maps it starts Spark with
about half of the computing (8.6 s without, 4.1 s with it). `make test` has it written, and without it all is the same.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
OPTIONS = (
    "-XX:TieredStopAtLevel=1",  # compiling less pays, and so does one thread for garbage
    "-XX:+UseSerialGC",
    "-Xlog:disable",  # a JVM that can't use the archive, as of another Java, would say so on its output, which is read
    "-Dspark.ui.enabled=false",
)


def options() -> str:
    """The options of every JVM that a test starts, in processes of its own, too: drivers, masters, workers, executors.

    For `JDK_JAVA_OPTIONS`, as Spark's own settings each reach one kind of these.
    """
    return " ".join([*OPTIONS, f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else OPTIONS)


def write_archive() -> None:
    """Run what most tests run, and have the JVM write its classes down when it ends."""
    unfinished = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["JDK_JAVA_OPTIONS"] = " ".join(OPTIONS)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={unfinished}"  # the driver's JVM alone
    from tests.spark.bench import RISES, Bench, events
    from trimtab.cli.around_spark import stderr_to_file
    from trimtab.spark.session import start_session

    with stderr_to_file() as log:
        spark = start_session("classes", "local[1]")
    log.unlink()
    gateway: Any = spark.sparkContext._gateway
    with tempfile.TemporaryDirectory() as folder:
        rows = events((1, 0, 1), (1, 1, 2))
        Bench(spark, Path(folder)).run(rows, close=True, options={"balance": None}, rises=RISES)
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # on which Spark's JVM ends
    gateway.proc.wait()
    unfinished.replace(ARCHIVE)


if __name__ == "__main__":
    write_archive()
