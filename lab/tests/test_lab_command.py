"""`trimtab lab`: list, run, compare, make the page."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lab.tests.test_record import a_record
from trimtab.cli.main import main
from trimtab_lab import catalogue
from trimtab_lab.running import Failed, Found, Moved, Started
from trimtab_lab.view import experiment_list, outcome, view

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _tiny_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MODULES", ("lab.tests.tiny",))


def test_list_shows_id_paper_figure_and_claim(capsys: Printed) -> None:
    assert main(["lab", "list"]) == 0
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if line.startswith("tiny-one "))
    assert all(part in line for part in ("Nobody 1999", "figure 1", "Sums [of steps] add up"))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_list_keeps_to_the_width(width: int) -> None:
    screen = Console(file=io.StringIO(), width=width)
    screen.print(experiment_list(list(catalogue.experiments(("lab.tests.tiny",)).values())))
    assert isinstance(screen.file, io.StringIO)
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("tiny-untrue ") for line in lines)


def test_one_experiment_shows_table_checks_verdict_and_files(tmp_path: Path, capsys: Printed) -> None:
    out = tmp_path / "new"
    assert main(["lab", "tiny-one", "--seed", "9", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "tiny-one: started" in printed
    assert "Sums" in printed
    assert "✓" in printed
    assert "the claim holds" in printed
    assert "tiny-one.svg" in printed
    assert json.loads((out / "tiny-one.json").read_text())["seed"] == 9


def test_a_claim_that_does_not_hold_ends_with_status_1(tmp_path: Path, capsys: Printed) -> None:
    assert main(["lab", "tiny-untrue", "--reduced", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "✗" in printed
    assert "the claim does not hold (1 of 2 checks)" in printed
    assert "numbers do not work" in printed


@pytest.mark.slow
def test_all_runs_in_processes_and_ends_with_a_summary(tmp_path: Path, capsys: Printed) -> None:
    assert main(["lab", "all", "--reduced", "--jobs", "2", "--out", str(tmp_path)]) == 1
    assert "3 of 4 hold" in capsys.readouterr().out
    assert len(list(tmp_path.glob("*.json"))) == 4


def test_several_run_in_the_order_of_the_catalogue_each_once(tmp_path: Path, capsys: Printed) -> None:
    assert main(["lab", "tiny-two", "tiny-one", "tiny-two", "--jobs", "1", "--out", str(tmp_path)]) == 0
    started = [line for line in capsys.readouterr().out.splitlines() if line.endswith(": started")]
    assert started == ["tiny-one: started", "tiny-two: started"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny-ones"], "error[lab.unknown]: there is no experiment tiny-ones\n  hint: did you mean tiny-one?"),
        (["zzz"], "error[lab.unknown]: there is no experiment zzz\n  hint: `trimtab lab list` shows the experiments"),
        (["all", "tiny-one"], "error[lab.unknown]: `all` stands alone\n  hint: write trimtab lab all"),
    ],
)
def test_an_unknown_id_is_an_error_with_a_hint(words: list[str], message: str, capsys: Printed) -> None:
    assert main(["lab", *words]) == 1
    assert capsys.readouterr().err.strip() == message


@pytest.mark.parametrize("options", [["--jobs", "0"], ["--seed", "-1"], ["--seed", "x"]])
def test_bad_numbers_are_refused(options: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lab", "tiny-one", *options])


def test_an_experiment_that_fails_is_shown_and_counts(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "MODULES", ("lab.tests.broken",))
    assert main(["lab", "broken-asks", "broken-divides", "--jobs", "1", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "ZeroDivisionError" in printed
    assert "0 of 2 hold" in printed


def test_the_page_is_made_from_what_was_run_and_what_was_kept(tmp_path: Path, capsys: Printed) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    page = ["lab", "page", "--out", str(out), "--docs", str(docs)]
    assert main(page) == 1
    assert "error[lab.empty]" in capsys.readouterr().err
    for id_ in ("tiny-two", "tiny-one"):
        assert main(["lab", id_, "--reduced", "--out", str(out)]) == 0
        assert main(page) == 0
        for file in out.iterdir():
            file.unlink()
    text = (docs / "lab.md").read_text(encoding="utf-8")
    assert text.index("### tiny-one") < text.index("### tiny-two")
    assert "never run: tiny-alone, tiny-untrue" in capsys.readouterr().out
    assert all((docs / target).exists() for target in ("lab/tiny-one.png", "lab/tiny-two.png"))


def test_a_terminal_gets_bars_and_what_was_found_above_them() -> None:
    screen = Console(file=io.StringIO(), width=100, force_terminal=True)
    record = a_record()
    with view(screen, 2) as report:
        for happening in (
            *(Started("tiny-one"), Moved("tiny-one", 0.5, "half [way]"), Found("tiny-one", record, (Path("a.json"),))),
            *(Started("tiny-two"), Failed("tiny-two", "no luck")),
        ):
            report(happening)
    assert isinstance(screen.file, io.StringIO)
    printed = screen.file.getvalue()
    assert "does not hold" in printed
    assert "no luck" in printed
    assert "a.json" in printed


def test_lines_report_each_quarter_once() -> None:
    screen = Console(file=io.StringIO(), width=100)
    with view(screen, 1) as report:
        report(Started("tiny-one"))
        for percent in range(0, 101, 5):
            report(Moved("tiny-one", percent / 100, "[busy]"))
    assert isinstance(screen.file, io.StringIO)
    assert screen.file.getvalue().splitlines() == [
        "tiny-one: started",
        *(f"tiny-one: {percent}%, [busy]" for percent in (25, 50, 75, 100)),
    ]


def test_what_is_missing_from_the_files_is_printed() -> None:
    screen = Console(file=io.StringIO(), width=100)
    screen.print(outcome(Found("tiny-one", a_record(), (Path("a.json"),), "there is no picture")))
    assert isinstance(screen.file, io.StringIO)
    assert "there is no picture" in screen.file.getvalue()
