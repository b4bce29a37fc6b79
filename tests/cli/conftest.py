"""Reading a job file changes the path of modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_path() -> Iterator[None]:
    """Reading a file puts its folder on the path; the next test has its own."""
    before, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = before
    for name in set(sys.modules) - modules:
        if name.startswith("job_module") or name == "alerts":
            del sys.modules[name]
