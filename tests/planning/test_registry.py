"""One registry: documents, errors and what a job takes agree with it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.policy import Balance
from trimtab.errors import BalanceError, JobError
from trimtab.planning import milp
from trimtab.planning.problem import Problem
from trimtab.planning.registry import INSTEAD, PLANNERS, POLICIES
from trimtab_lab.planners import OF_THE_LAB

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROBLEM = Problem([3.0, 2.0, 1.0], [0, 0, 0], [10.0, 10.0])


def cells_of(document: str, header: str) -> list[list[str]]:
    """The rows of the table with that header, cell by cell."""
    text = (DOCS / document).read_text(encoding="utf-8")
    rows = text.split(f"| {header} |\n")[1].split("\n\n")[0].splitlines()[1:]
    return [row.strip("|").split("|") for row in rows]


def quoted(names: Iterable[str], quotes: str) -> str:
    return ", ".join(f"{quotes}{name}{quotes[::-1]}" for name in names)


def test_the_table_of_planners_has_those_of_the_registry() -> None:
    rows = cells_of("planning.md", "planner | what it does | when | solvers | in a job | from")
    assert [(row[0].strip(), row[3].strip(), row[4].strip()) for row in rows] == [
        (f"`{name}`", ", ".join(each.solvers), quoted(each.policies, '`"')) for name, each in PLANNERS.items()
    ]


def test_the_table_of_the_lab_s_planners_has_those_of_its_registry() -> None:
    rows = cells_of("planning.md", "planner | what it does | when | solvers | from")
    assert [(row[0].strip(), row[3].strip()) for row in rows] == [
        (f"`{name}`", ", ".join(each.solvers)) for name, each in OF_THE_LAB.items()
    ]


def test_the_table_of_policies_has_those_of_the_registry() -> None:
    rows = cells_of("balancing.md", "`balance` | what it does | choose it")
    assert [row[0].strip() for row in rows] == [*(quoted([name], '`"') for name in POLICIES), "`None`"]


def test_the_guide_to_job_files_names_every_policy() -> None:
    setting = re.search(r"^\| `balance` \|.*$", (DOCS / "running.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert setting is not None
    assert set(re.findall(r'`"([a-z-]+)"`', setting[0])) == {*POLICIES, "none"}


@pytest.mark.parametrize("name", INSTEAD)
def test_a_planner_that_no_job_uses_is_refused_with_what_to_use_instead(name: str) -> None:
    with pytest.raises(JobError, match=rf'no job balances by "{name}"\n  hint: use ') as raised:
        Balance(planner=name)
    assert raised.value.code == "job.balance"


def test_planners_of_this_package_are_for_jobs_or_say_what_a_job_uses_instead() -> None:
    assert {name for name, each in PLANNERS.items() if not each.policies} <= set(INSTEAD)
    assert set(INSTEAD) <= {*PLANNERS, *OF_THE_LAB}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_s_planner_levels(policy: str) -> None:
    coordinator = Coordinator(Balance(planner=policy))
    assert coordinator._planner(PROBLEM).load_distance < PROBLEM.load_distance(PROBLEM.homes)


class TestWithoutSolvers:
    """What is there in an installation without extras."""

    @pytest.fixture(autouse=True)
    def _nothing_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for package in ("highspy", "scipy"):
            monkeypatch.setitem(sys.modules, package, None)
        milp.__globals__["_compile"].cache_clear()

    @pytest.mark.parametrize("name", [name for name, each in PLANNERS.items() if not each.solvers])
    def test_planners_without_solvers_plan(self, name: str) -> None:
        assert PROBLEM.faults(PLANNERS[name].planner(PROBLEM).owner) == []

    @pytest.mark.parametrize("name", [name for name, each in PLANNERS.items() if each.solvers])
    def test_others_say_what_to_install(self, name: str) -> None:
        needed = PLANNERS[name].solvers
        message = rf"{' and '.join(needed)}, which aren't installed\n.*pip install {' '.join(needed)}"
        with pytest.raises(BalanceError, match=message):
            PLANNERS[name].planner(PROBLEM)

    def test_traffic_needs_sparse_tables(self) -> None:
        with pytest.raises(BalanceError, match=r"plan\.solver.*scipy"):
            Problem([1.0, 1.0], [0, 0], [1.0, 1.0], traffic=np.ones((2, 2)))

    def test_a_job_finds_out_before_it_starts(self) -> None:
        with pytest.raises(BalanceError, match=r"plan\.solver"):
            Coordinator(Balance())
        assert Coordinator(Balance(planner="flux"))
