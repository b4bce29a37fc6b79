"""The three laws on real Spark: random jobs, moved, resized, stopped and started again; `spark_laws` tries more."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.testing.choices import SeededChoices
from trimtab.testing.spark_laws import differs


@pytest.mark.parametrize("seed", range(6))
def test_however_a_job_is_cut_placed_and_restarted_it_gives_what_evaluate_gives(seed: int, spark: Any) -> None:
    assert differs(SeededChoices(seed), spark) in ("", "error")
