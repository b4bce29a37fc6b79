"""A Kafka broker of the tests: one process, on this machine only, with its own controller (KRaft).

    python -m tests.support.broker

runs one until Ctrl-C, and prints its address. Kafka's jars are fetched from Maven Central, once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.support.maven import Artifact, jars, java

VERSION = "4.3.1"
ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka_2.13", VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),  # prints errors
)
JAVA = ("-Xms64m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
PASSWORD = "let me read"
"""Of the user `reader`, at the address that asks who one is."""
START_S = 60.0
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={login} required user_reader="{password}";
log.dirs={folder}/log
auto.create.topics.enable=false
# One broker can hold one copy of everything, and few partitions are soon there.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# One that was killed is let in again when its last session has ended.
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=200
# Compaction and retention within a test, and in a small heap.
log.cleaner.backoff.ms=50
log.cleaner.dedupe.buffer.size=4194304
log.retention.check.interval.ms=100
log.initial.task.delay.ms=100
"""


class Broker:
    """A broker whose messages are in a folder of its own; it keeps its address when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._secured, self._controller = _free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_formatted = False

    @property
    def servers(self) -> str:
        """The address, as clients want it."""
        return f"127.0.0.1:{self.port}"

    @property
    def secured_servers(self) -> str:
        """The address at which clients have to say who they are, by SASL."""
        return f"127.0.0.1:{self._secured}"

    @property
    def log(self) -> Path:
        """What the broker printed."""
        return self.folder / "output"

    def begin(self) -> None:
        """Start the process, and don't wait until it answers."""
        assert self._process is None, "it runs already"
        settings = self.folder / "server.properties"
        if not self._is_formatted:
            ports = {"port": self.port, "secured": self._secured, "controller": self._controller}
            settings.write_text(_SETTINGS.format(**ports, folder=self.folder, login=_LOGIN, password=PASSWORD))
            self._java("kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(settings)).wait()
            self._is_formatted = True
        self._process = self._java("kafka.Kafka", str(settings))

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self.begin()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return once the broker answers; raises RuntimeError with what it printed if it ends before."""
        assert self._process is not None, "it was not started"
        end = time.monotonic() + START_S
        while True:
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"Kafka has not started:\n{self.log.read_text(errors='replace')[-5_000:]}")
            with contextlib.suppress(OSError, KafkaException):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                if self.admin.list_topics(timeout=2).brokers:
                    return
            time.sleep(0.05)

    def stop(self) -> None:
        """End the process as an operator would; messages stay for the next start."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process as a loss of power would; messages stay for the next start."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Have the process do nothing, with its connections open, until `resume`."""
        assert self._process is not None, "it doesn't run"
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # its threads stop one by one

    def resume(self) -> None:
        """Have the process go on."""
        assert self._process is not None, "it doesn't run"
        self._process.send_signal(signal.SIGCONT)

    @cached_property
    def admin(self) -> AdminClient:
        """A client that makes and changes topics."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0, "reconnect.backoff.max.ms": 100})

    def make_topic(
        self,
        name: str = "",
        *,
        partitions: int = 1,
        compacted: bool = False,
        retention_ms: int = -1,
        settings: Mapping[str, str] | None = None,
    ) -> str:
        """Make a topic and return its name, which is a new one unless given.

        A compacted one is compacted soon: a segment is closed by the next message, and cleaned within a second.
        """
        name = name or f"topic-{uuid.uuid4().hex[:8]}"
        found = {"retention.ms": str(retention_ms), **(_COMPACTED if compacted else {}), **(settings or {})}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=found)], request_timeout=20)
        made[name].result()
        while name not in self.admin.list_topics(timeout=20).topics:  # the broker hears of it from its controller
            time.sleep(0.02)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions, so that it has `total`."""
        self.admin.create_partitions([NewPartitions(topic, total)], request_timeout=20)[topic].result()

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the messages before an offset, by partition, as retention would."""
        wanted = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        for future in self.admin.delete_records(wanted, request_timeout=20).values():
            future.result()

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics."""
        for future in self.admin.delete_topics(list(names), request_timeout=20).values():
            future.result()

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        path = ":".join(map(str, jars(f"kafka-{VERSION}", ARTIFACTS)))
        # Spark's options for Java, of the tests' own process, are not for this one.
        environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [java(), *JAVA, "-cp", path, *command],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)  # one that is paused wouldn't notice
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
}


@contextmanager
def running_broker() -> Iterator[Broker]:
    """A broker without topics; it ends with the block, and so do its messages."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    broker = Broker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


def _cluster_id() -> str:
    return "trimtab-tests-cluster0"  # 22 characters, as of a UUID in base 64


def _main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the broker ends with this process
    with running_broker() as broker:
        sys.stdout.write(f"{broker.servers}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    _main()
