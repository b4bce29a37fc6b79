"""A Spark session for a command: quiet, in UTC, with workers that run the same Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

DEFAULT_CONF = {
    "spark.sql.ansi.enabled": "false",  # as in queries: what can't be computed is null
    "spark.log.level": "ERROR",  # warnings would be printed into the live view
    "spark.sql.session.timeZone": "UTC",  # times are also shown in UTC
    "spark.ui.showConsoleProgress": "false",
}


def start_session(
    name: str, master: str, conf: Mapping[str, str] | None = None, python_folders: Sequence[str] = ()
) -> SparkSession:
    """A session on this master. `python_folders`: more folders in which workers look for modules."""
    # It repeats every exception as a line of JSON with Java's stack; trimtab reports exceptions itself.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    if master.startswith("local"):
        # Workers on this machine run the same Python as this process, not the first one on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if python_folders:  # workers inherit the path from the driver's environment
        paths = [*python_folders, os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    wanted = {**DEFAULT_CONF, "spark.app.name": name, **(conf or {}), "spark.master": master}
    settings = SparkConf(loadDefaults=False).setAll([*wanted.items()])
    if SparkContext._gateway is None:
        # Java is no part of this process's group: a signal to the group would end it within a batch. It ends with us.
        java = launch_gateway(settings, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=java)
    return SparkSession.builder.config(conf=settings).getOrCreate()
