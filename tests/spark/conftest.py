"""One small Spark session for all tests that need one, and one cluster."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.spark.bench import Bench

collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ["*"]  # nearly all of these files import it


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from tests.support.spark_laws import SETTINGS
    from trimtab.spark.session import start_session

    session = start_session("trimtab tests", "local[2]", SETTINGS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A real cluster with room for two executors. Its drivers are other processes: this one has a session already."""
    from trimtab_lab.live.cluster import Cluster

    with Cluster(workers=2) as running:
        yield running


@pytest.fixture
def bench(spark: Any, tmp_path: pathlib.Path) -> Bench:
    """A folder with a stream and a checkpoint to try jobs on."""
    from tests.spark.bench import Bench

    return Bench(spark, tmp_path)
