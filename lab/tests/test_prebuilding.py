"""What `trimtab warm` compiles of the lab is enough for its routers and planners."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from trimtab.machine_code.missing import Missing, if_missing
from trimtab_lab.planners import OF_THE_LAB
from trimtab_lab.prebuilding import COMPILED, PARTS
from trimtab_lab.routers import ROUTERS
from trimtab_lab.workloads.clusters import synthetic_cluster


def test_the_command_finds_the_parts() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["trimtab.parts"] == {"lab": "trimtab_lab.prebuilding:PARTS"}


@pytest.mark.slow  # it compiles, unless `trimtab warm` was run
def test_nothing_is_left_to_compile() -> None:
    for part in PARTS.values():
        part()
    keys = np.random.default_rng(1).integers(0, 20, 1_000)
    problem = synthetic_cluster(8, 100, varies=30.0, seed=2, operators=4, one_to_one=60.0, max_moves=12)
    with if_missing(Missing.REFUSE):
        for make in ROUTERS.values():
            make(7, seed=2).route(keys)
        for name in COMPILED:
            OF_THE_LAB[name].planner(problem)
