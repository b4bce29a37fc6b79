"""The page of the lab: made from records alone, and the committed one is up to date."""

from __future__ import annotations

from pathlib import Path

from lab.tests.test_record import a_record
from trimtab_lab.catalogue import experiments
from trimtab_lab.experiment import Scale
from trimtab_lab.files import read_records
from trimtab_lab.page import page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_shows_claim_verdict_reason_table_picture_and_seed() -> None:
    text = page([a_record()])
    assert "0 of 1 hold." in text
    assert "| [tiny-one](#tiny-one) | Nobody 1999, figure 1 | Sums [of steps] add up |" in text
    assert "**Does not hold (1 of 2 checks).** numbers do not work that way" in text
    assert "| ✗ one is two | 2 | 1 |" in text
    assert "![tiny-one: Sums (of steps) add up](lab/tiny-one.png)" in text
    assert "| A\\|B | 2 | 2.5 |" in text
    assert "Seed 3, 1.2 s" in text
    assert "`trimtab lab tiny-one`" in text


def test_the_committed_page_is_made_from_the_committed_records() -> None:
    records = read_records(DOCS / "lab", experiments())
    kept = {record.id for record in records}
    missing = [id_ for id_ in experiments() if id_ not in kept]
    assert (DOCS / "lab.md").read_text(encoding="utf-8") == page(records, missing)


def test_every_experiment_but_live_ones_has_a_record_and_a_picture_and_nothing_else_is_kept() -> None:
    kept = {path.name for path in (DOCS / "lab").iterdir()}
    files = {f"{id_}.{kind}": experiment for id_, experiment in experiments().items() for kind in ("json", "png")}
    assert kept <= set(files)
    assert [name for name, experiment in files.items() if name not in kept and not experiment.live] == []


def test_the_page_names_what_it_has_no_record_of() -> None:
    assert "no full run of them was kept yet: `tiny-two`." in page([a_record()], ["tiny-two"])
    assert "no full run" not in page([a_record()])


def test_the_committed_files_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (DOCS / "lab").iterdir()}
    assert [name for name, size in sizes.items() if size > 150_000] == []


def test_the_committed_results_are_full_runs_that_say_what_they_ran_on() -> None:
    for record in read_records(DOCS / "lab", experiments()):
        assert record.scale is Scale.FULL, record.id
        assert record.verdict.checks, record.id
        assert record.verdict.holds or record.verdict.reason, record.id
        assert record.conditions.versions["trimtab"], record.id
