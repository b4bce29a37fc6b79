"""One small Spark session for all tests that need one."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.bench import Bench


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from trimtab.runtime.session import start_session
    from trimtab.testing.spark_laws import SETTINGS

    session = start_session("trimtab tests", "local[2]", SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def bench(spark: Any, tmp_path: pathlib.Path) -> Bench:
    """A folder with a stream and a checkpoint to try jobs on."""
    return Bench(spark, tmp_path)
