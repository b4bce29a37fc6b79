"""The wheel is the product: what is in it, and that it runs where nothing else of this repository is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution, version
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement

from trimtab.testing import assert_same_rows, rows_at

pytestmark = pytest.mark.slow  # they build a wheel, and install it

ROOT = Path(__file__).resolve().parent.parent
OF_EXTRAS = ("highspy", "matplotlib", "pandas", "polars", "pymetis", "pyspark", "scipy")

TICKS = rows_at("ts symbol price", (0, "KEEL", 100.0), (1, "KEEL", 88.0), (2, "HELM", 50.0), (3, "KEEL", 90.0))
QUERY = """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES LAST(D.price) AS low
  PATTERN (S D+ U) DEFINE D AS D.price < PREV(D.price), U AS U.price > PREV(U.price))"""
JOB = f"""\
[job]
checkpoint = "checkpoint"
engines = 2
key_groups = 8
available_now = true
close = true
[streams.ticks]
format = "parquet"
path = "ticks"
schema = "ts TIMESTAMP, symbol STRING, price DOUBLE"
event_time = "ts"
[queries.drops]
sql = '''{QUERY}'''
[[queries.drops.sinks]]
format = "parquet"
path = "drops"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: what an earlier build left beside the sources must not get into it."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(copy / "dist"), str(copy)]
    if int(version("setuptools").split(".")[0]) >= 77:  # as pyproject.toml asks for; else pip looks for one
        command.insert(4, "--no-build-isolation")
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (found,) = (copy / "dist").glob("*.whl")
    return found


def requirements(wheel: Path) -> list[str]:
    """What the wheel itself says it needs, with its extras."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


def closure(needed: Iterable[str], extras: Iterable[str], found: dict[tuple[str, frozenset[str]], None]) -> set[str]:
    """The names of the distributions that these requirements ask for, and of those that they ask for in turn."""
    chosen = ("", *extras)
    for requirement in map(Requirement, needed):
        asked = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in chosen)
        key = (requirement.name.lower(), frozenset(requirement.extras))
        if asked and key not in found:
            found[key] = None
            closure(distribution(requirement.name).requires or (), requirement.extras, found)
    return {name for name, _ in found}


def installed(folder: Path, wheel: Path, extras: tuple[str, ...] = ()) -> Path:
    """The commands of a new environment that has the wheel, and what it says it needs, but nothing else."""
    venv.create(folder, with_pip=False)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in closure(requirements(wheel), extras, {}):
        needed = distribution(name)
        for top in {path.parts[0] for path in needed.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():  # two distributions may share a folder
                (site / top).symlink_to(Path(str(needed.locate_file(top))))
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-deps"]
    subprocess.run([*command, "--no-index", str(wheel)], check=True, capture_output=True, timeout=120)
    return folder / "bin"


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `pip install trimtab` has it."""
    return installed(tmp_path_factory.mktemp("plain"), wheel)


def run(command: Path, *arguments: str, folder: Path, status: int = 0) -> str:
    """What a command of the environment prints; nothing of this repository is on its path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYSPARK_PYTHON": str(command.parent / "python"), "TRIMTAB_CACHE_DIR": str(folder / "cache")}
    ran = subprocess.run(
        [str(command), *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA")).removesuffix("METADATA")
        commands = archive.read(f"{about}entry_points.txt").decode().split()
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "trimtab").rglob("*.py")}
    assert {name for name in names if not name.startswith(about)} == sources | {"trimtab/py.typed"}
    assert not [name for name in sources if any(word in name for word in ("lab/", "test_", "plain_", "brute_force"))]
    assert commands == ["[console_scripts]", "trimtab", "=", "trimtab.cli.main:main"]
    assert not [line for line in requirements(wheel) if line.startswith(OF_EXTRAS) and "extra ==" not in line]


def test_the_environment_has_what_the_wheel_asks_for_and_nothing_else(wheel: Path, plain: Path, tmp_path: Path) -> None:
    direct = {Requirement(each).name for each in requirements(wheel) if "extra ==" not in each}
    assert {"duckdb", "numba", "sqlglot"} <= direct
    listing = "import json, importlib.metadata as m; print(json.dumps([each.name for each in m.distributions()]))"
    there = {name.lower() for name in json.loads(run(plain / "python", "-c", listing, folder=tmp_path))}
    assert direct <= there
    assert not there & {*OF_EXTRAS, "packaging", "pytest", "hypothesis", "flask", "setuptools", "ruff"}


def test_queries_run_where_only_the_wheel_and_its_dependencies_are(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text(QUERY)
    pq.write_table(TICKS, tmp_path / "ticks.parquet")
    program = "import trimtab, json; print(json.dumps([trimtab.__file__, trimtab.__version__]))"
    file, found = json.loads(run(plain / "python", "-c", program, folder=tmp_path))
    assert Path(file).is_relative_to(plain.parent)
    assert found == version("trimtab")
    table = f"ticks={tmp_path / 'ticks.parquet'}"
    assert "KEEL    88.0" in run(plain / "trimtab", "evaluate", "query.sql", "--table", table, folder=tmp_path)
    arguments = ("-m", "trimtab.cli.main", "explain", "query.sql", "--table", table)
    assert "PATTERN" in run(plain / "python", *arguments, folder=tmp_path).upper()


def test_what_an_extra_has_is_asked_for_where_it_is_missing(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    said = run(plain / "trimtab", "run", "--check", "job.toml", folder=tmp_path, status=1)
    assert "error[job.spark]" in said
    assert "pip install 'trimtab[spark]'" in said
    program = "from trimtab.planning import Problem, milp; milp(Problem([1.0], [0], [1.0, 1.0]))"
    said = run(plain / "python", "-c", program, folder=tmp_path, status=1)
    assert "this needs highspy and scipy, which aren't installed" in said
    assert "pip install highspy scipy" in said


def test_the_lab_is_no_part_of_it(plain: Path, tmp_path: Path) -> None:
    assert "invalid choice: 'lab'" in run(plain / "trimtab", "lab", "list", folder=tmp_path, status=2)


@pytest.mark.spark
def test_a_job_runs_where_the_wheel_and_spark_are(wheel: Path, tmp_path: Path) -> None:
    commands = installed(tmp_path / "environment", wheel, ("spark",))
    work = tmp_path / "work"
    (work / "ticks").mkdir(parents=True)
    pq.write_table(TICKS, work / "ticks" / "0.parquet")
    (work / "job.toml").write_text(JOB)
    run(commands / "trimtab", "run", "job.toml", folder=work)
    answers = [pq.read_table(path) for path in (work / "drops").glob("*.parquet")]
    assert_same_rows(answers[0] if len(answers) == 1 else answers, {"symbol": ["KEEL"], "low": [88.0]})
