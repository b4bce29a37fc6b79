"""What holds for the whole suite: Hypothesis, Spark's Java, and which process runs what (see `turns`).

Hypothesis has one profile, whose number of examples an environment variable scales:
`TRIMTAB_EXAMPLES=2000 pytest tests/engine/test_laws.py` looks harder than a normal run does, and
`python -m tests.support.laws --seeds 0 20000` harder still. Among the tests that take seconds (`-m "not slow"`, as in
`make quick`) a law has an eighth of its examples, and in `make unit` a third. `make laws` draws new ones.

Every test has the mark of its tier: see `tests/tiers.py`. Among those that need no Spark (`-m unit`) there is no Java:
a test that starts it and lacks the mark fails.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.java import options
from tests.tiers import tier_of
from tests.turns import turn_of

os.environ.setdefault("JDK_JAVA_OPTIONS", options())
os.environ["TRIMTAB_VALIDATE"] = "1"  # drivers check themselves after every step

SEARCHING = "TRIMTAB_SEARCH" in os.environ  # see `tests/search.py`

settings.register_profile(
    "trimtab",
    deadline=None,  # the first example of a test pays for imports
    # The same examples in every normal run, new ones in a search.
    derandomize=not SEARCHING and "TRIMTAB_EXAMPLES" not in os.environ,
    # A case is hundreds of decisions: making one small takes minutes, which a normal run hasn't got.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if SEARCHING else [])],
    print_blob=SEARCHING,
    max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "150")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("trimtab")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr.split(" and ")[0] in ("unit", "papers"):
        os.environ["JAVA_HOME"] = str(Path(__file__).with_name("tests") / "no_java")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the lab unread where none of its tests will run: its imports take seconds in each process."""
    is_unit = config.option.markexpr.split(" and ")[0] == "unit"
    return True if is_unit and collection_path.is_relative_to(config.rootpath / "lab") else None


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = [item for item in items if isinstance(item, pytest.Function)]
    for item in items:
        path = item.path.relative_to(config.rootpath).as_posix() if item.path.is_relative_to(config.rootpath) else ""
        marks = {mark.name for mark in item.iter_markers()}
        item.add_marker(tier_of(path, marks, getattr(item, "fixturenames", ())))
    chosen = config.option.markexpr
    fewer = 8 if "not slow" in chosen else 3 if chosen.split(" and ")[0] == "unit" else 1
    if fewer > 1 and "TRIMTAB_EXAMPLES" not in os.environ and not SEARCHING:
        for function in {test.function for test in tests}:
            _have_fewer_examples(function, fewer)
        # For laws that are made when they run.
        settings.register_profile("fewer", max_examples=-(-settings().max_examples // fewer))
        settings.load_profile("fewer")
    if hasattr(config, "workerinput"):  # one process alone takes the files in their order
        items.sort(key=lambda item: turn_of(item.path.relative_to(config.rootpath).as_posix()))


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay to the end: looking at them takes each full collection a quarter of a second


def _have_fewer_examples(test: Any, fewer: int) -> None:
    name = "_hypothesis_internal_use_settings"  # where Hypothesis's own plugin for pytest reads and changes them
    if (own := getattr(test, name, None)) is not None:
        setattr(test, name, settings(own, max_examples=-(-own.max_examples // fewer)))
