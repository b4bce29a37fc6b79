"""`trimtab evaluate`: queries over files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import trimtab
from trimtab.cli.main import main

QUERY = "SELECT k, x * 2 AS twice FROM t WHERE x > 1"
TABLE = pa.table({"k": ["a", "b", None], "x": [1, 2, 3]})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "query.sql").write_text(QUERY)
    pq.write_table(TABLE, tmp_path / "t.parquet")
    pa_csv.write_csv(TABLE, tmp_path / "t.csv")
    return tmp_path


def command(files: Path, *options: str, table: str = "t.parquet") -> list[str]:
    return ["evaluate", str(files / "query.sql"), "--table", f"t={files / table}", *options]


def test_the_answer_is_printed_as_a_table(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(files)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "k     twice",
        "----  -----",
        "b         4",
        "null      6",
        "2 rows",
    ]


@pytest.mark.parametrize("name", ["answer.parquet", "answer.csv"])
def test_the_answer_is_written_to_a_file(files: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = files / name
    assert main(command(files, "--out", str(out), table="t.csv")) == 0
    assert "2 rows written" in capsys.readouterr().out
    found = pq.read_table(out) if out.suffix == ".parquet" else pa_csv.read_csv(out)
    assert found["twice"].to_pylist() == [4, 6]


def test_only_the_first_rows_are_printed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "query.sql").write_text("SELECT x FROM t")
    pq.write_table(pa.table({"x": list(range(100))}), files / "t.parquet")
    assert main(command(files)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 40 + 1
    assert lines[-1] == "the first 40 of 100 rows"


def test_rows_out_of_order_need_an_event_time(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "t.csv").write_text("ts,x\n2026-01-01 00:00:02,2\n2026-01-01 00:00:01,1\n")
    clauses = "ORDER BY ts MEASURES FIRST(x) AS first PATTERN (A B)"
    (files / "query.sql").write_text(f"SELECT * FROM t MATCH_RECOGNIZE ({clauses})")
    assert main(command(files, "--event-time", "ts", "--delay", "2 seconds", table="t.csv")) == 0
    assert capsys.readouterr().out.splitlines()[2].strip() == "1"
    assert main(command(files, "--event-time", "ts", "--delay", "soon", table="t.csv")) == 1
    assert capsys.readouterr().err.startswith("error[input.delay]: ")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("SELECT y FROM t", "error[query.column]: no column named y\n  "),
        ("SELECT x FROM u", "error[query.table]: no table named u\n  "),
    ],
)
def test_mistakes_are_printed_without_a_traceback(
    files: Path, text: str, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "query.sql").write_text(text)
    assert main(command(files)) == 1
    assert capsys.readouterr().err.startswith(start + str(files / "query.sql"))


def test_an_answer_that_cannot_be_written_is_an_error(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("answer.txt", "missing/answer.csv"):
        assert main(command(files, "--out", str(files / name))) == 1
        assert capsys.readouterr().err.startswith("error[input.file]: ")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == f"trimtab {trimtab.__version__}\n"


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([])
    assert leaving.value.code == 2
    assert "COMMAND" in capsys.readouterr().err
