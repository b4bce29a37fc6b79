"""The page "From Kafka to an alert": its commands run, with Kafka's own tools, a real broker and a real job."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.broker import ARTIFACTS, VERSION, Broker, running_broker
from tests.support.maven import Artifact, jars
from trimtab.sources.kafka import Kafka
from trimtab.sources.source import Range

PAGE = Path(__file__).resolve().parent.parent / "docs" / "from_kafka.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
TOOL_JARS = (Artifact("org.apache.kafka", "kafka-tools", VERSION, alone=True),)  # what these need is in the broker's
PATIENCE_S = 180.0
START = "trimtab run --plain unpaid.toml\n"


class Reader:
    """Someone who does what the page says, in one folder."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.servers, self.folder = broker.servers, folder
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        path = ":".join(map(str, [*jars(f"kafka-tools-{VERSION}", TOOL_JARS), *jars(f"kafka-{VERSION}", ARTIFACTS)]))
        options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
        commands = {name: f'java {options} -cp "{path}" {tool}' for name, tool in TOOLS.items()}
        # Java says on its output that it takes these options, so only the command gets them, whose output isn't read.
        ours = f'env JDK_JAVA_OPTIONS="{os.environ["JDK_JAVA_OPTIONS"]}" "{sys.executable}" -m trimtab.cli.main'
        for name, command in {**commands, "trimtab": ours}.items():
            script = bin_folder / name
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            script.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
        self.environment.pop("JDK_JAVA_OPTIONS", None)

    def here(self, text: str) -> str:
        """A text of the page, with the address of the tests' broker."""
        return text.replace("localhost:9092", self.servers)

    def does(self, commands: str) -> list[str]:
        """Run commands of the page, and return the lines that they print."""
        ran = subprocess.run(
            ["/bin/sh", "-e", "-c", self.here(commands)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout.splitlines()

    @contextmanager
    def terminal(self, end: signal.Signals) -> Iterator[None]:
        """A terminal in which the job runs, until it is ended in this way."""
        with (self.folder / "log").open("ab") as log:
            job = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {START}"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield
            assert job.poll() is None, "it has ended by itself"
            os.killpg(job.pid, end)
            job.wait(PATIENCE_S)
        except BaseException as error:
            error.add_note((self.folder / "log").read_text())
            raise
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()

    def alerts(self) -> list[str]:
        """All alerts that there are in the end."""
        found = Kafka(self.servers, "unpaid", value="string")
        [(name, end)] = found.latest().items()
        texts: list[str] = found.read(Range(name, 0, end)).table["value"].to_pylist()
        return texts


@pytest.mark.servers
def test_the_commands_of_the_page_give_what_it_shows(tmp_path: Path) -> None:
    assert shutil.which("java"), "the page says that it is needed"
    blocks = [(kind, text) for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if kind != "text"]
    kinds = ["sh", "toml", "sh", "sh", "sh", "json", "sh", "sh", "json"]
    assert [kind for kind, _ in blocks] == kinds
    topics, file, run, orders, first, one, later, both, two = [text for _, text in blocks]
    assert run.endswith(START)
    with running_broker() as broker:
        reader = Reader(broker, tmp_path)
        reader.does(topics)
        (tmp_path / "unpaid.toml").write_text(reader.here(file))
        reader.does(run.removesuffix(START))
        with reader.terminal(signal.SIGKILL):
            reader.does(orders)
            assert reader.does(first) == one.splitlines()
        reader.does(later)
        with reader.terminal(signal.SIGTERM):
            assert reader.does(both) == two.splitlines()
            time.sleep(1.0)  # a batch that is repeated would come now
        assert reader.alerts() == two.splitlines()
    [bad] = pq.read_table(tmp_path / "quarantine").to_pylist()
    assert bad["source_value"] == b"no JSON at all"
    assert bad["source_partition"].startswith("orders:")
    assert bad["source_position"] == 3
