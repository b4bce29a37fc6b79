"""Documents that have to stay true: the error codes, the example of the README, the picture."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.csv as pa_csv

import trimtab
from trimtab.cli.texts import text_table

ROOT = Path(__file__).resolve().parent.parent
QUOTED = re.compile(r'"((?:query|input|match|operator|window|route|plan|control|simulate|lab(?!\.md))\.[a-z][a-z-]*)"')
RAISED = re.compile(r'(?:State|Job|Input)Error\(\s*"((?:state|job|source)\.[a-z][a-z-]*)"')  # "job.json" is no code
LISTED = re.compile(r"^\| `([a-z]+\.[a-z-]+)` \|", re.MULTILINE)
WITH_CODES = ("language.md", "operations.md")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def raised_codes() -> set[str]:
    sources = (ROOT / "src" / "trimtab", ROOT / "lab" / "src")
    texts = [file.read_text(encoding="utf-8") for source in sources for file in source.rglob("*.py")]
    return {code for text in texts for pattern in (QUOTED, RAISED) for code in pattern.findall(text)}


def test_every_error_code_is_documented_and_every_documented_one_exists() -> None:
    documents = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in WITH_CODES]
    listed = [code for document in documents for code in LISTED.findall(document)]
    assert len(listed) == len(set(listed))
    assert raised_codes() - set(listed) == set()
    assert set(listed) - raised_codes() == set()


def test_the_first_query_of_the_readme_answers_what_it_shows() -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    query = next(text for language, text in blocks if language == "sql")
    shown = next(text for language, text in blocks if language == "text")
    example = ROOT / "docs" / "examples" / "v_shapes.sql"
    assert query == example.read_text(encoding="utf-8")
    ticks = pa_csv.read_csv(ROOT / "docs" / "examples" / "ticks.csv")
    command, _, answer = shown.partition("\n")
    assert command == "$ trimtab evaluate docs/examples/v_shapes.sql --table ticks=docs/examples/ticks.csv"
    assert text_table(trimtab.evaluate(query, {"ticks": ticks})) == answer.rstrip("\n")


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    links = [(document, target) for document in documents for target in LINK.findall(document.read_text("utf-8"))]
    missing = [
        f"{document.relative_to(ROOT)}: {target}"
        for document, target in links
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert missing == []


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs" / "images").glob("*.png"))
    assert pictures
    assert [picture.name for picture in pictures if picture.stat().st_size > 150_000] == []
