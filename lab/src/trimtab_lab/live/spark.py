"""The one Spark session that all live experiments of a process share."""

from __future__ import annotations

import atexit
from typing import Any

from trimtab.errors import BalanceError

MASTER = "local[8]"
"""More task slots than cores: engines wait for most of their time, and have to do so at the same time."""

_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}
_open: list[Any] = []


def shared_session(master: str | None = None) -> Any:
    """The session, started by the first call, and again after it was stopped or if another master is asked for.

    Raises BalanceError `lab.spark` where Spark or its Java is missing.
    """
    if _open and _is_stopped(_open[0]):
        _open.clear()
    wanted = master or MASTER
    if _open and _open[0].sparkContext.master != wanted:
        close_session()
    if not _open:
        _open.append(_started(wanted))
        atexit.register(close_session)
    return _open[0]


def close_session() -> None:
    """Stop the session, if there is one."""
    while _open:
        session = _open.pop()
        if not _is_stopped(session):
            session.stop()


def _started(master: str) -> Any:
    try:
        from trimtab.spark.session import start_session
    except ModuleNotFoundError as error:
        message = f"this experiment runs on Spark, which is missing ({error.name})"
        raise BalanceError("lab.spark", message, "pip install 'trimtab[spark]'") from error
    try:
        return start_session("trimtab lab", master, _CONF)
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        message = f"this experiment runs on Spark, which doesn't start: {str(error).splitlines()[0]}"
        raise BalanceError("lab.spark", message, "Spark needs Java 17 or newer; is JAVA_HOME set?") from error


def _is_stopped(session: Any) -> bool:
    return session.sparkContext._jsc is None
