"""Runs the page on the first run on a cluster as it stands, and checks the outputs that it shows."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab_lab.live.processes import MARK, end_all, new_mark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BREAK = "==== end of block"
PATIENCE_S = 900


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.cluster
def test_the_first_run_on_a_cluster_does_what_the_page_says(tmp_path: Path) -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    port = str(free_port())
    script = ["set -eu"]
    for language, text in blocks():
        if language == "python":
            name = text.split("\n", 1)[0].removeprefix("# ")
            (tmp_path / name).write_text(text, encoding="utf-8")
        elif language == "sh":
            # Other clusters of this machine may have Spark's usual ports.
            script += [text.replace("7077", port).replace("--webui-port 8080", "--webui-port 0"), f"echo '{BREAK}'"]
    mark = new_mark()
    python = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    environment |= {MARK: mark, "PATH": f"{python}{os.pathsep}{os.environ['PATH']}"}
    with (tmp_path / "output.txt").open("w+") as output, (tmp_path / "errors.txt").open("w+") as errors:
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(script)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(PATIENCE_S)
        finally:
            left = end_all(mark)
            process.wait()
        output.seek(0)
        errors.seek(0)
        printed, wrong = output.read(), errors.read()
    assert code == 0, f"{printed}\n{wrong}\n{_end_of_logs(tmp_path)}"
    assert [process.command for process in left] == [], "the page leaves processes behind"
    outputs = iter(printed.split(f"{BREAK}\n"))
    answer = ""
    shown = 0
    for language, text in blocks():
        if language == "sh":
            answer = next(outputs)
        elif language == "text":
            shown += 1
            assert fnmatch.fnmatchcase(answer, _pattern(text)), f"the page shows\n{text}\nand it is\n{answer}"
        elif language == "log":
            shown += 1
            assert _wording(text) <= _wording(answer)
    assert shown == 4


def _pattern(text: str) -> str:
    """A glob for what the page shows, where dots stand for what differs from run to run."""
    return re.sub(r"([\[\]*?])", r"[\1]", text).replace("...", "*")


def _wording(text: str) -> set[str]:
    """The lines that are the same in every run: those without numbers."""
    return {" ".join(re.sub("-+", "-", line).split()) for line in text.splitlines() if not re.search(r"\d", line)}


def _end_of_logs(folder: Path) -> str:
    logs = sorted([*folder.glob("*.log"), *folder.glob("*.err")])
    return "\n".join(f"-- {log.name}\n" + "\n".join(log.read_text().splitlines()[-25:]) for log in logs)
