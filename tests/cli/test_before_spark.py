"""`trimtab run`: what is checked before Spark is started. No test here starts it.

One file, though it is long: every check is tried by the same bench, which holds that nothing is started or changed.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import trimtab.cli.run as run_command
from trimtab.cli.around_spark import check_spark
from trimtab.cli.job_build import Backend
from trimtab.cli.job_file import read_job_file
from trimtab.cli.job_queries import columns_known, compile_known
from trimtab.cli.main import main
from trimtab.driver.resuming import fingerprint
from trimtab.errors import JobError, StateError
from trimtab.spark.brokers import addresses, silent
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.files import Folder
from trimtab.state.lock import CheckpointLock
from trimtab.state.manifest import Manifest, QueryState, write
from trimtab_lab.demo.stream import MARK, DemoFolders

SQL = "SELECT symbol, COUNT(*) AS n FROM ticks GROUP BY symbol, window(ts, '1 minute')"
JOB = f"""\
[job]
checkpoint = "checkpoint"
key_groups = 8
[streams.ticks]
format = "parquet"
path = "ticks"
schema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"
event_time = "ts"
[queries.counts]
sql = "{SQL}"
[[queries.counts.sinks]]
format = "parquet"
path = "out"
"""
KAFKA = """\
[job]
checkpoint = "checkpoint"
[streams.trades]
format = "kafka"
event_time = "timestamp"
options = {{ kafka.bootstrap.servers = "{servers}", subscribe = "trades" }}
[queries.values]
sql = "SELECT topic, value FROM trades"
[[queries.values.sinks]]
format = "console"
"""


class Bench:
    """A job file in a folder of its own, and a Spark that must not be started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "job.toml"
        self.file.write_text(JOB)
        (folder / "ticks").mkdir()
        self.sessions = 0

    def session(self, _: Any) -> Any:
        self.sessions += 1
        raise JobError("job.spark", "Spark would have been started")

    def write(self, old: str, new: str, text: str = JOB) -> None:
        assert old in text
        self.file.write_text(text.replace(old, new))

    def state(self, *, sql: str = SQL, closed: bool = False, schema: str = "", **others: Any) -> None:
        """A checkpoint with a committed batch of the query `counts`."""
        text = self.file.read_text()
        if schema:
            self.write("symbol BIGINT, ts TIMESTAMP, price DOUBLE", schema)
        file = read_job_file(self.file)
        query = compile_known(sql, {each.name: (columns_known(each), each.event_time) for each in file.streams})
        assert query is not None
        self.file.write_text(text)
        checkpoint = Checkpoint.open(str(self.folder / "checkpoint"), 8)
        folders = checkpoint.stream("ticks")
        folders.make()
        queries = {"counts": QueryState(fingerprint(query), (), sql)}
        kept = Manifest(checkpoint.job, "ticks", 0, 8, 1, (0,) * 8, None, None, queries, {}, closed=closed, **others)
        write(folders.manifests, kept)

    def contents(self) -> dict[str, bytes | None]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else None
            for path in self.folder.rglob("*")
        }


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    backend = Backend(check=lambda: None, session=bench.session, job=lambda *_, **__: None)
    monkeypatch.setattr(run_command, "SPARK", backend)
    return bench


def reported(bench: Bench, capsys: pytest.CaptureFixture[str]) -> str:
    """The error that both the command and its check report, with nothing started or changed."""
    before = bench.contents()
    texts = set()
    for arguments in (["run", "--check", str(bench.file)], ["run", str(bench.file)]):
        assert main(arguments) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        texts.add(printed.err)
    assert bench.sessions == 0
    assert bench.contents() == before
    (text,) = texts
    return text


def is_fine(bench: Bench, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether nothing is found: the check says so, and the command goes on to start Spark."""
    before = bench.contents()
    assert main(["run", "--check", str(bench.file)]) == 0, capsys.readouterr().err
    assert bench.sessions == 0
    assert main(["run", str(bench.file)]) == 1
    assert "Spark would have been started" in capsys.readouterr().err
    assert bench.contents() == before
    bench.sessions -= 1
    return True


def test_a_solver_that_is_not_installed(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    assert reported(bench, capsys) == (
        "error[plan.solver]: this needs highspy, which isn't installed\n  hint: pip install highspy\n"
    )
    for balance in ("flux", "none"):
        bench.write("key_groups = 8", f'key_groups = 8\nbalance = "{balance}"')
        assert is_fine(bench, capsys)


# The checkpoint ------------------------------------------------------------------------------------


@contextmanager
def held_by_another_process(checkpoint: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock, until it is killed as a crash would."""
    program = (
        "import sys, time; from trimtab.state.files import Folder; from trimtab.state.lock import CheckpointLock\n"
        "lock = CheckpointLock(Folder(sys.argv[1])).acquire(); print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(checkpoint)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()
            process.wait()


def test_a_checkpoint_that_another_process_holds(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.state()
    with held_by_another_process(bench.folder / "checkpoint") as process:
        text = reported(bench, capsys)
        assert text.startswith(f"error[state.locked]: the checkpoint {bench.folder / 'checkpoint'} is in use by")
        assert f"process {process.pid} on " in text
        with pytest.raises(StateError) as raised:
            CheckpointLock(Folder(str(bench.folder / "checkpoint"))).acquire()
        assert text == f"{raised.value}\n", "the same error as at the start"
    assert (bench.folder / "checkpoint" / "lock").read_bytes(), "a crash leaves the holder's name in the lock"
    assert is_fine(bench, capsys)


def test_a_demonstration_that_runs_is_not_removed_by_the_next_one(tmp_path: Path) -> None:
    folders = DemoFolders(tmp_path / "demo")
    folders.make_afresh()
    for checkpoint in (folders.checkpoint, folders.home / "balanced" / "checkpoint"):
        checkpoint.mkdir(parents=True)
        with CheckpointLock(Folder(str(checkpoint))), pytest.raises(StateError, match="is in use by another job"):
            folders.make_afresh()
        assert checkpoint.exists()
    folders.make_afresh()
    assert sorted(path.name for path in folders.home.iterdir()) == [MARK, "ticks"]


def test_a_checkpoint_whose_input_was_closed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.state(closed=True)
    assert reported(bench, capsys) == (
        "error[job.closed]: the input of stream ticks was closed and can't be reopened\n"
        "  hint: start with a fresh checkpoint, or without close=True the next time\n"
    )
    bench.write("key_groups = 8", "key_groups = 8\navailable_now = true\nclose = true")
    assert "error[job.closed]" in reported(bench, capsys)
    # Only Spark knows the columns, but the stream is known without it.
    bench.write('event_time = "ts"', 'event_time = "ts"\nselect = ["symbol", "ts", "parse_url(symbol, \'HOST\') AS h"]')
    assert "error[job.closed]" in reported(bench, capsys)


def test_a_stream_that_was_read_another_way(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.state(positions={"files": 5})
    expected = "error[job.source-changed]: trimtab has read stream ticks itself so far, up to {'files': 5}"
    assert expected in reported(bench, capsys)
    bench.write('event_time = "ts"', 'event_time = "ts"\nstart_at = "own"')
    assert is_fine(bench, capsys)


def test_a_query_that_is_not_the_one_of_the_checkpoint(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.state()
    assert is_fine(bench, capsys)
    bench.write("COUNT(*) AS n", "count(*) AS events")
    assert is_fine(bench, capsys), "the same query in another spelling"
    bench.write("1 minute", "2 minutes")
    assert reported(bench, capsys) == (
        "error[job.changed-query]: query counts is not the one that the checkpoint has the state of:\n"
        f"    {SQL}\n"
        "  hint: change it back, name it otherwise, or forget its state: query('counts', sql, reset=True)\n"
    )
    bench.write("1 minute", "2 minutes", JOB.replace("[queries.counts]", "[queries.counts]\nreset = true"))
    assert is_fine(bench, capsys)
    bench.write("1 minute", "2 minutes", JOB.replace("queries.counts", "queries.others"))
    assert is_fine(bench, capsys)


def test_a_query_whose_columns_have_changed_too_is_left_to_spark(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = "SELECT * FROM ticks"
    bench.state(sql=everything, schema="symbol BIGINT, ts TIMESTAMP")
    bench.write(SQL, "SELECT symbol, ts FROM ticks")
    assert is_fine(bench, capsys), "it is the same query, since the stream has one column more"


def test_a_folder_that_is_no_checkpoint_of_this_job(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.state()
    bench.write("key_groups = 8", "key_groups = 16")
    assert "error[job.key-groups]: the checkpoint" in reported(bench, capsys)
    bench.write('checkpoint = "checkpoint"', 'checkpoint = "ticks"')
    assert is_fine(bench, capsys), "an empty folder is fine"
    (bench.folder / "ticks" / "notes.txt").touch()
    assert "error[state.foreign]: " in reported(bench, capsys)
    bench.write('checkpoint = "checkpoint"', 'checkpoint = "job.toml/checkpoint"')
    assert "is not a folder, or is inside a file" in reported(bench, capsys)


@pytest.mark.parametrize(("forbidden", "folder"), [("", "checkpoint"), ("out", "out")])
def test_a_folder_that_cannot_be_written(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, forbidden: str, folder: str
) -> None:
    (bench.folder / "out").mkdir()
    ask = os.access

    def access(path: str, mode: int) -> bool:  # the tests may be run by root, who may write anywhere
        return Path(path) != bench.folder / forbidden and ask(path, mode)

    monkeypatch.setattr(os, "access", access)
    assert reported(bench, capsys) == (
        f"error[state.access]: no permission to use {bench.folder / folder}: {os.strerror(errno.EACCES)}\n"
        "  hint: let the user that runs the job read and write there\n"
    )


# Queries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code", "place"),
    [
        ("SELECT symbol FROM", "query.syntax", "^"),
        ("SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B{3,1}))", "query.quantifier", "^^^^^"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_the_syntax_of_a_query_is_checked_even_if_its_columns_are_unknown(
    bench: Bench, capsys: pytest.CaptureFixture[str], sql: str, code: str, place: str, is_known: bool
) -> None:
    select = "" if is_known else '\nselect = ["ts", "parse_url(symbol, \'HOST\') AS symbol"]'
    bench.write('event_time = "ts"', f'event_time = "ts"{select}', JOB.replace(SQL, sql))
    text = reported(bench, capsys)
    assert text.startswith(f"error[job.file]: {bench.file}:{11 if select else 10}: queries.counts.sql: error[{code}]: ")
    assert place in text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT parse_url(symbol, 'HOST') AS host FROM ticks",
        "SELECT symbol FROM ticks WHERE my_own_function(price) > 3",
        "SELECT symbol + 'a' AS sum FROM ticks",
    ],
)
def test_what_spark_may_understand_is_left_to_it(bench: Bench, capsys: pytest.CaptureFixture[str], sql: str) -> None:
    bench.write(SQL, sql)
    assert is_fine(bench, capsys)


def test_a_query_that_cannot_be_split(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write(SQL + '"', 'SELECT symbol FROM ticks"\nsplit = "pkg"')
    assert "error[job.split]: query counts can't be split: it takes rows one by one" in reported(bench, capsys)


def test_columns_that_options_add_are_left_to_spark(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    text = KAFKA.format(servers="not an address").replace("topic, value", "headers")
    bench.file.write_text(text)
    assert "error[query.column]: no column named headers" in reported(bench, capsys)
    bench.write('subscribe = "trades"', 'subscribe = "trades", includeHeaders = true', text)
    assert is_fine(bench, capsys)


# Sources -------------------------------------------------------------------------------------------


def test_a_folder_that_is_read_has_to_exist(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    (bench.folder / "ticks").rmdir()
    path = bench.folder / "ticks"
    assert reported(bench, capsys) == (
        f"error[job.file]: {bench.file}: streams.ticks.path: there is no folder {path}\n"
        "  hint: make it, or point the stream at another one\n"
    )
    bench.write("[streams.ticks]", '[spark]\nmaster = "yarn"\n[streams.ticks]')
    assert is_fine(bench, capsys), "on a cluster the path is another machine's"


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with listening() as port:
        return port


def test_kafka_has_to_answer_at_one_address(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    closed = f"127.0.0.1:{free_port()}"
    bench.file.write_text(KAFKA.format(servers=f"{closed},kafka.invalid:9092"))
    text = reported(bench, capsys)
    assert text.startswith(
        f"error[job.source]: {bench.file}: streams.trades.options.kafka.bootstrap.servers: no broker can be reached: "
        f"{closed} ({os.strerror(errno.ECONNREFUSED)}), kafka.invalid:9092 ("
    )
    assert "hint: start Kafka, or correct the addresses" in text
    with listening() as port:
        bench.file.write_text(KAFKA.format(servers=f"{closed}, PLAINTEXT://localhost:{port}"))
        assert is_fine(bench, capsys)


def test_an_address_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def connect(address: tuple[str, int], _: float) -> Any:
        if address[0] == "silent":
            ended.wait(60)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connect)
    found = silent({"a": [("silent", 1), ("late", 2)]}, 0.05)
    ended.set()
    assert found == {"a": {("silent", 1): "no answer within 0.05 s", ("late", 2): "no answer within 0.05 s"}}


def test_addresses_that_cannot_be_read_are_left_to_kafka() -> None:
    assert addresses("broker:9092,broker") == []
    assert addresses("${BROKERS}") == []
    assert addresses("broker-1.example:9092,") == [("broker-1.example", 9092)]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel has no table of ports")
def test_a_socket_needs_a_listener_and_gets_no_connection(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        'format = "socket"\nselect = ["value", "timestamp(value) AS ts"]\noptions = {{ host = "localhost", port = {} }}'
    )
    text = JOB.replace('path = "ticks"\nschema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"\n', "")
    text = text.replace(SQL, "SELECT value FROM ticks")
    port = free_port()
    bench.write('format = "parquet"\nevent_time', f"{options.format(port)}\nevent_time", text)
    assert f"error[job.source]: {bench.file}: streams.ticks.options.port: no program listens on" in reported(
        bench, capsys
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        bench.write('format = "parquet"\nevent_time', f"{options.format(port)}\nevent_time", text)
        assert is_fine(bench, capsys)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_kafka_has_to_answer_for_a_sink_too(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    closed = f"127.0.0.1:{free_port()}"
    sink = f'format = "kafka"\noptions = {{ Kafka.Bootstrap.Servers = "{closed}", topic = "counts" }}'
    bench.write('format = "parquet"\npath = "out"', sink)
    assert reported(bench, capsys) == (
        f"error[job.sink]: {bench.file}: queries.counts.sinks[0]: nothing can be written to kafka without "
        "a column value, a text or bytes: Kafka takes value, and if there are any, key, topic and headers\n"
        "  hint: the columns are symbol, n\n"
    )
    bench.file.write_text(bench.file.read_text().replace("COUNT(*) AS n", "COUNT(*) AS value"))
    assert reported(bench, capsys).startswith(
        f"error[job.sink]: {bench.file}: queries.counts.sinks[0].options.kafka.bootstrap.servers: no broker can be"
    )
    with listening() as port:
        bench.file.write_text(bench.file.read_text().replace(closed, f"127.0.0.1:{port}"))
        assert main(["run", "--check", str(bench.file)]) == 0
        assert "\n  queries.counts.sinks[0]: whether the topic may be written\n" in capsys.readouterr().out


def test_kafka_has_to_answer_for_a_sink_of_trimtabs_own(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    closed = f"127.0.0.1:{free_port()}"
    options = f'servers = "{closed}", topic = "counts", key = "sym", security.protocol = "PLAINTEXT"'
    bench.write('format = "parquet"\npath = "out"', f'format = "kafka"\noptions = {{ {options} }}')
    assert reported(bench, capsys) == (
        f"error[job.sink]: {bench.file}: queries.counts.sinks[0]: nothing can be written to kafka without "
        "the column sym, which is to be the key\n  hint: the columns are symbol, n\n"
    )
    bench.file.write_text(bench.file.read_text().replace('key = "sym"', 'key = "symbol"'))
    assert reported(bench, capsys).startswith(
        f"error[job.sink]: {bench.file}: queries.counts.sinks[0].options.servers: no broker can be reached: {closed}"
    )


# The job's own code --------------------------------------------------------------------------------


def test_the_check_runs_no_code_of_the_job_and_says_what_it_left_out(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("job_code/__init__.py", "job_code/alerts.py", "job_code_operators.py", "highspy.py", "duckdb.py"):
        (bench.folder / name).parent.mkdir(exist_ok=True)
        (bench.folder / name).write_text(f"open({str(bench.folder / 'ran')!r}, 'w')\ndef send(rows, batch): pass\n")
    text = JOB.replace("key_groups = 8", 'key_groups = 8\noperators = ["job_code_operators"]')
    text = text.replace(SQL, "SELECT * FROM rises(TABLE(ticks) PARTITION BY symbol ORDER BY ts)")
    bench.write('format = "parquet"\npath = "out"', 'python = "job_code.alerts:send"', text)
    assert main(["run", "--check", str(bench.file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{bench.file} is fine: streams ticks; queries counts",
        "not checked, because that takes Spark or the job's own code:",
        "  job.operators[0]: job_code_operators is there, and is not imported",
        "  queries.counts.sinks[0].python: job_code.alerts:send is there, and is not imported",
        "  queries.counts: its names and types: it calls an operator of a module that is not imported",
    ]
    assert not (bench.folder / "ran").exists()
    assert str(bench.folder) not in sys.path
    for old, new, message in (
        ("job_code_operators", "job_code_gone", "there is no module job_code_gone"),
        ("job_code.alerts", "job_code.gone", "there is no module job_code.gone"),
        (":send", ":sent", "job_code.alerts has no function sent"),
    ):
        bench.file.write_text(bench.file.read_text().replace(old, new))
        assert main(["run", "--check", str(bench.file)]) == 1
        assert message in capsys.readouterr().err
        bench.file.write_text(bench.file.read_text().replace(new, old))
    assert not (bench.folder / "ran").exists()


def test_what_the_check_could_not_check_is_listed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    text = KAFKA.format(servers="not an address").replace("topic, value", "my_own(value) AS value")
    text = text.replace('event_time = "timestamp"', 'event_time = "timestamp"\nwhere = "offset > 3"')
    text = text.replace('subscribe = "trades"', 'subscribe = "trades", colour = "red"')
    text += '[[queries.values.sinks]]\nformat = "iceberg"\npath = "s3://bucket/values"\n'
    bench.file.write_text(text)
    assert main(["run", "--check", str(bench.file)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  streams.trades.where: it is Spark's SQL",
        "  streams.trades.format: whether Spark has kafka",
        "  streams.trades.options: whether kafka has colour",
        "  streams.trades.options: whether the topics exist and may be read",
        "  queries.values: its names and types: only Spark may know MY_OWN(value)",
        "  queries.values.sinks[1].format: whether Spark has iceberg",
        "  queries.values.sinks[1].path: whether it may be written",
    ]


# Java ----------------------------------------------------------------------------------------------


def test_a_missing_java_or_spark(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    backend = Backend(check=check_spark, session=bench.session, job=lambda *_, **__: None)
    monkeypatch.setattr(run_command, "SPARK", backend)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert reported(bench, capsys).startswith(
        f"error[job.java]: JAVA_HOME is {tmp_path}, and there is no bin/java in it"
    )
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    assert "is Java 11, and Spark needs 17 or newer" in reported(bench, capsys)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.2\"' >&2\n")
    assert is_fine(bench, capsys)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert reported(bench, capsys) == (
        "error[job.spark]: Spark is missing: there is no pyspark\n  hint: pip install 'trimtab[spark]'\n"
    )
