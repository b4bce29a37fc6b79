"""What holds for the whole suite: Hypothesis, Spark's Java, and which process runs what (see `turns`).

Hypothesis has one profile, whose number of examples an environment variable scales:
`TRIMTAB_EXAMPLES=2000 pytest tests/engine/test_laws.py` looks harder than a normal run does, and
`python -m trimtab.testing.laws --seeds 0 20000` harder still.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.turns import turn_of

# For every Spark that a test starts, in a process of its own, too: their lives are short, so compiling less pays.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

settings.register_profile(
    "trimtab",
    deadline=None,  # the first example of a test pays for imports
    # The same examples in every normal run, new ones in a search.
    derandomize="TRIMTAB_EXAMPLES" not in os.environ,
    # A case is hundreds of decisions, and shrinking one takes minutes; `testing.simplest_case` is quicker by hand.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "150")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("trimtab")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one process alone takes the files in their order
        items.sort(key=lambda item: turn_of(item.path.relative_to(config.rootpath).as_posix()))
