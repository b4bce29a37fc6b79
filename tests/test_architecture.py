"""The map of the code: every file and name on docs/architecture.md exists, and no package, layer or recipe is missing.

On that page everything between backticks is one of these, and nothing else:

    `spark/pipeline.py`                      a path: from src/trimtab/, or from the root (`tests/`, `docs/` and so on)
    `spark/pipeline.py: Pipeline.close, Y`   names that the file defines
    `Pipeline`                               a name that a file of the same paragraph, list item or table row defines;
                                             rows of a table also have the files of the paragraph before the table
    `make unit`                              a target of the Makefile
    `trimtab`                                the command
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from trimtab.driver.happenings import Happening, Instruction
from trimtab.language.compile import PASSES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "trimtab"
PAGE = ROOT / "docs" / "architecture.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

AT_THE_ROOT = ("benchmarks", "docs", "examples", "lab", "pyproject.toml", "src", "tests")

FENCE = "```"
TOKEN = re.compile(r"`([^`]+)`")
NAMES_OF = re.compile(r"([\w/.-]+\.py): (.+)")
PATH = re.compile(r"[\w.-]*/[\w/.-]*|[\w-]+\.(?:py|md|toml)")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?")
TARGET = re.compile(r"make ([a-z]+)")
ITEM = re.compile(r" *(?:-|\d+\.) ")
RECIPE = re.compile(r"\(\.\./CONTRIBUTING\.md#([a-z-]+)\)")


# Reading the page ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A paragraph, an item of a list or a row of a table; `before` is the paragraph before the table."""

    line: int
    text: str
    before: str = ""

    @property
    def is_row(self) -> bool:
        return self.text.startswith("|")


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page, without code."""
    found: list[Block] = []
    is_code, is_open = False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(FENCE):
            is_code, is_open = not is_code, False
        elif is_code or not line.strip():
            is_open = False
        elif line.startswith("|"):
            before = next((each.text for each in reversed(found) if not each.is_row), "")
            found.append(Block(number, line, before))
            is_open = False
        elif is_open and not ITEM.match(line):
            found[-1] = Block(found[-1].line, f"{found[-1].text} {line.strip()}")
        else:
            found.append(Block(number, line.strip()))
            is_open = not line.startswith("#")
    return found


def rows_under(header: str) -> list[list[str]]:
    """The rows of the table with that header, each as its cells."""
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(f"\n| {header} |\n")
    assert found, f"docs/architecture.md has no table with the header | {header} |"
    rows = rest.split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


# Reading the code ------------------------------------------------------------------------------


def located(path: str) -> Path:
    """Where a path of the page leads."""
    return ROOT / path if path.split("/", 1)[0] in AT_THE_ROOT else PACKAGE / path


@cache
def defined_in(file: Path) -> frozenset[str]:
    """What a module defines: its names, and those of the members of its classes as `Class.member`."""
    return frozenset(_defined(ast.parse(file.read_text(encoding="utf-8")).body))


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef():
                yield node.name
                yield from (f"{node.name}.{member}" for member in _defined(node.body))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.Assign():
                targets = (each for target in node.targets for each in ast.walk(target))  # `LATE, QUARANTINE = ...`
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try():
                yield from _defined(node.body)


def files_in(text: str) -> list[Path]:
    """The Python files that a text names."""
    named = (token.split(":")[0] for token in TOKEN.findall(text))
    return [located(path) for path in named if path.endswith(".py") and located(path).is_file()]


def mistake_in(token: str, block: Block) -> str | None:
    """What is wrong with something between backticks."""
    if names := NAMES_OF.fullmatch(token):
        file = located(names[1])
        if not file.is_file():
            return f"there is no file {file.relative_to(ROOT)}"
        missing = [name for name in names[2].split(", ") if name not in defined_in(file)]
        return f"{file.relative_to(ROOT)} doesn't define {', '.join(missing)}" if missing else None
    if PATH.fullmatch(token):
        path = located(token)
        exists = path.is_dir() if token.endswith("/") else path.is_file()
        return None if exists else f"there is no {path.relative_to(ROOT)}"
    if target := TARGET.fullmatch(token):
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        return None if re.search(rf"^{target[1]}:", makefile, re.MULTILINE) else "the Makefile has no such target"
    if token == "trimtab":
        return None
    if NAME.fullmatch(token):
        files = files_in(f"{block.text} {block.before}")
        if not files:
            return "it has no file: write `file.py: Name`, or name the file in the same paragraph or row"
        known = {name for file in files for name in defined_in(file)}
        if token in known or any(name.endswith(f".{token}") for name in known):
            return None
        return f"none of {', '.join(file.relative_to(ROOT).as_posix() for file in files)} defines it"
    return "it is neither a path nor a name: see the docstring of tests/test_architecture.py"


def layers() -> list[str]:
    """The layers that import-linter checks, from the top, as the page writes them."""
    contract = contracts()["Parts look downwards"]
    return [layer.replace("trimtab.", "") for layer in contract["layers"]]


def contracts() -> dict[str, Any]:
    """import-linter's contracts by name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {each["name"]: each for each in settings["tool"]["importlinter"]["contracts"]}


def recipes() -> dict[str, str]:
    """The recipes of CONTRIBUTING.md for changes, by the anchor that leads to them."""
    _, _, text = CONTRIBUTING.read_text(encoding="utf-8").partition("\n## Recipes\n")
    titles = re.findall(r"^### ((?:Add|Change) .*)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-"): title for title in titles}


# What is named exists --------------------------------------------------------------------------


def test_every_file_and_name_on_the_page_exists() -> None:
    blocks = blocks_of(PAGE.read_text(encoding="utf-8"))
    mistakes = [
        f"docs/architecture.md:{block.line}: `{token}`: {wrong}"
        for block in blocks
        for token in TOKEN.findall(block.text)
        if (wrong := mistake_in(token, block)) is not None
    ]
    assert not mistakes, "\n".join(["", *mistakes])


@pytest.mark.parametrize(
    ("token", "wrong"),
    [
        ("spark/pipelines.py", "there is no src/trimtab/spark/pipelines.py"),
        ("tests/nothing/", "there is no tests/nothing"),
        ("spark/pipeline.py: Pipeline, Pipe", "src/trimtab/spark/pipeline.py doesn't define Pipe"),
        ("spark/pipeline.py: Pipeline.take", "src/trimtab/spark/pipeline.py doesn't define Pipeline.take"),
        ("spark/pipelines.py: Pipeline", "there is no file src/trimtab/spark/pipelines.py"),
        ("Decider", "none of src/trimtab/driver/machine.py defines it"),
        ("make coffee", "the Makefile has no such target"),
        ("SELECT 1", "it is neither a path nor a name: see the docstring of tests/test_architecture.py"),
    ],
)
def test_what_does_not_exist_is_found(token: str, wrong: str) -> None:
    block = Block(1, "The driver is in `driver/machine.py`.")
    assert mistake_in(token, block) == wrong
    assert mistake_in("Driver", block) is None


def test_a_name_without_a_file_is_found() -> None:
    wrong = mistake_in("Driver", Block(1, "The driver decides."))
    assert wrong is not None
    assert wrong.startswith("it has no file")


# Nothing is missing ----------------------------------------------------------------------------


def test_every_package_is_described() -> None:
    rows = rows_under("package | what it is for | start reading at")
    described = {token for row in rows for cell in row[:2] for token in TOKEN.findall(cell)}
    packages = {f"{file.parent.relative_to(PACKAGE).as_posix()}/" for file in PACKAGE.glob("*/**/__init__.py")}
    modules = {file.name for file in PACKAGE.glob("*.py")} - {"__init__.py"}
    missing = sorted((packages | modules) - described)
    assert not missing, f"docs/architecture.md: the table of packages lacks {', '.join(missing)}"


def test_the_layers_are_those_that_are_checked() -> None:
    picture = PAGE.read_text(encoding="utf-8").partition("## The layers")[2].split(FENCE)[1]
    drawn = [re.split(r" {2,}", line)[0] for line in picture.splitlines()[1:]]
    assert drawn == layers(), "the picture in docs/architecture.md and the contract in pyproject.toml differ"


def test_every_rule_on_imports_is_told() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in contracts() if name not in page] == []


def test_the_passes_are_those_of_the_compiler() -> None:
    passes = [TOKEN.findall(row[0])[0] for row in rows_under("pass | what it makes | with the help of")]
    assert passes == [f"language/{each.__name__}.py: {each.__name__}" for each in PASSES]


def test_every_step_of_a_batch_is_told() -> None:
    rows = rows_under("what happened | what to do")
    told = [{token for row in rows for token in TOKEN.findall(row[cell])} for cell in (0, 1)]
    steps = [{each.__name__ for each in get_args(union)} for union in (Happening, Instruction)]
    assert told == steps, "the table of steps in docs/architecture.md and driver/happenings.py differ"


def test_the_page_and_the_recipes_lead_to_each_other() -> None:
    linked = set(RECIPE.findall(PAGE.read_text(encoding="utf-8")))
    lacking = [title for anchor, title in recipes().items() if anchor not in linked]
    assert not lacking, f"no row of docs/architecture.md leads to the recipe: {', '.join(lacking)}"
    missing = sorted(linked - set(recipes()))
    assert not missing, f"docs/architecture.md leads to recipes that CONTRIBUTING.md lacks: {', '.join(missing)}"
    assert "](docs/architecture.md" in CONTRIBUTING.read_text(encoding="utf-8")
