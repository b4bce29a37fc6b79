"""What stands around Spark in a command: the Java it needs, its errors in few lines, its noise in a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trimtab.cli.around_spark import check_java, java_version, spark_errors, stderr_to_file
from trimtab.errors import JobError, StateError, noting, places_of
from trimtab.spark.error_text import noting_callers, spark_message


def fake_java(folder: Path, output: str) -> dict[str, str]:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": ""}


def test_a_java_that_is_new_enough_passes(tmp_path: Path) -> None:
    check_java(fake_java(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16'))
    check_java({"PATH": fake_java(tmp_path / "path", 'openjdk version "17"')["JAVA_HOME"] + "/bin"})


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        ('java version "1.8.0_202"', "is Java 8, and Spark needs 17 or newer"),
        ('openjdk version "11.0.2"', "is Java 11, and Spark needs 17 or newer"),
        ("no such thing", "doesn't print its version: no such thing"),
    ],
)
def test_an_old_or_strange_java_is_refused_with_what_to_do(tmp_path: Path, output: str, reported: str) -> None:
    with pytest.raises(JobError) as caught:
        check_java(fake_java(tmp_path, output))
    assert caught.value.code == "job.java"
    assert reported in str(caught.value)
    assert "set JAVA_HOME" in str(caught.value)


def test_a_missing_java_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there is none: no JAVA_HOME, no java on the path"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(JobError, match="there is no bin/java in it"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert java_version("nothing") is None


REFUSAL = """\
An error occurred while calling o71.load.
: org.apache.spark.SparkNotFound: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: parket. SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.notFound(QueryExecutionErrors.scala:770)
Caused by: java.lang.ClassNotFoundException: parket.DefaultSource
\t... 22 more
"""
PLAN = """\
[UNRESOLVED_COLUMN] no `nope`. SQLSTATE: 42703; line 1 pos 0;
'Project ['nope]
+- StreamingRelation FileSource[/ticks], [symbol#3L]
"""
WORKER = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 4207, in invoke_udf
    command = serializer.loads(file)
              ^^^^^^^^^^^^^^^^^^^^^^
ModuleNotFoundError: No module named 'trimtab'

"""
PLACE = "[PARSE_SYNTAX_ERROR] Syntax error.\n\n== SQL ==\nprice +\n-------^^^\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (REFUSAL, "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: parket. SQLSTATE: 42K02"),
        (PLAN, "[UNRESOLVED_COLUMN] no `nope`. SQLSTATE: 42703; line 1 pos 0;"),
        (WORKER, "An exception was thrown from the Python worker:\n  ModuleNotFoundError: No module named 'trimtab'"),
        (PLACE, "[PARSE_SYNTAX_ERROR] Syntax error.\n  == SQL ==\n  price +\n  -------^^^"),
        ("one\n" * 100, "\n  ".join(["one"] * 8)),
    ],
)
def test_errors_of_spark_are_cut_to_what_their_reader_needs(text: str, shown: str) -> None:
    assert spark_message(text) == shown


@pytest.mark.parametrize(
    ("function", "noted"),
    [
        ("invoke_udf", "query drops or query rises or the DataFrame"),  # of Spark's worker: the user's is a lambda
        ("own_rate", "query rises"),
    ],
)
def test_a_python_function_that_raises_is_looked_for_in_the_queries(function: str, noted: str) -> None:
    class PythonException(Exception):  # noqa: N818
        __module__ = "pyspark.errors"

    queries = {"drops": "SELECT rate FROM ticks", "rises": "SELECT Own_Rate (price) AS rate FROM ticks"}
    with pytest.raises(PythonException) as raised, noting("batch 7 of stream ticks"), noting_callers(queries):
        raise PythonException(WORKER.replace("invoke_udf", function))
    assert places_of(raised.value) == f"{noted}, batch 7 of stream ticks"
    with pytest.raises(PythonException) as raised, noting_callers(queries):
        raise PythonException("the disk is full")
    assert places_of(raised.value) == ""


def test_errors_that_are_not_sparks_are_not_changed() -> None:
    with pytest.raises(ZeroDivisionError), spark_errors("the job"):
        raise ZeroDivisionError
    with pytest.raises(StateError), spark_errors("the job"):
        raise StateError("state.gone", "gone")


def test_what_a_process_writes_to_stderr_goes_to_a_file_in_the_meantime(capfd: pytest.CaptureFixture[str]) -> None:
    with stderr_to_file() as log:
        subprocess.run(["sh", "-c", "echo noise >&2"], check=True)
    subprocess.run(["sh", "-c", "echo heard >&2"], check=True)
    assert log.read_text() == "noise\n"
    log.unlink()
    assert capfd.readouterr().err == "heard\n"
