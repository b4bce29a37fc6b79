"""The catalogue holds every figure of the papers that a simulator, a planner or a live job can regenerate."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from trimtab_lab import catalogue

FIGURES = (
    *("fugu-fig3", "fugu-fig4", "fugu-fig5", "fugu-fig6", "fugu-fig7"),
    *("milp-fig2", "milp-fig3", "milp-fig4", "milp-fig5", "albic-fig10", "albic-fig11"),
    *("milp-fig6", "milp-fig7", "milp-fig8", "milp-fig9"),
    *("xu-fig3", "xu-fig6", "xu-fig8", "xu-fig9"),
    *("dlb-table1", "dlb-fig3a", "dlb-fig3b", "dlb-fig4a", "dlb-fig4b"),
    *("cg-fig4", "cg-fig6", "cg-fig7", "cg-fig8", "cg-fig9", "cg-fig10", "cg-fig11", "cg-fig12", "cg-fig13"),
    *("cg-fig14", "cg-fig15"),
)


def test_every_figure_of_the_papers_is_there() -> None:
    assert set(FIGURES) - set(catalogue.experiments()) == set()


def test_ids_can_be_typed_and_texts_are_there() -> None:
    for id_, experiment in catalogue.experiments().items():
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", id_), id_
        assert all((experiment.paper, experiment.figures, experiment.claim, experiment.workload)), id_


def test_experiments_of_one_paper_stand_together() -> None:
    papers = [experiment.paper for experiment in catalogue.experiments().values()]
    changes = [paper for paper, before in zip(papers, [None, *papers], strict=False) if paper != before]
    assert len(changes) == len(set(changes))


def test_two_experiments_of_one_id_are_found() -> None:
    with pytest.raises(AssertionError, match="tiny-one"):
        catalogue.experiments(("lab.tests.tiny", "lab.tests.tiny"))


def test_a_module_that_is_missing_is_not_passed_over() -> None:
    with pytest.raises(ModuleNotFoundError):
        catalogue.experiments(("lab.tests.tiny", "lab.tests.missing"))


def test_the_command_line_does_not_import_the_lab() -> None:
    program = "import json, sys, trimtab.cli.main; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert [name for name in json.loads(output) if name.startswith(("trimtab_lab", "matplotlib"))] == []
