"""Job files with sources that trimtab reads itself, and with an intake: what is read, and what is refused."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

import trimtab.cli.run as run_command
import trimtab.sources.kafka_clients as kafka_clients
from tests.cli.job_files import GOOD, mistake, mistakes, read
from trimtab.cli.before_spark import check_before_spark, slow_streams, unchecked
from trimtab.cli.job_build import Backend
from trimtab.cli.job_sections import OwnSource
from trimtab.cli.main import main
from trimtab.control.intake import Intake
from trimtab.errors import JobError
from trimtab.sources.files import Files
from trimtab.sources.kafka import Kafka
from trimtab.sources.rate import Rate
from trimtab.sources.source import Range

pytestmark = pytest.mark.usefixtures("own_path")

START = GOOD.index("[streams.ticks]")
END = GOOD.index("[queries.drops]")
FILES = """\
source = "files"
path = "ticks/"
schema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"
"""
KAFKA = """\
source = "kafka"
servers = "localhost:1"
topics = "ticks"
schema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"
"""
RATE = """\
source = "rate"
rows_per_s = 1000
"""
OVER_RATE = "SELECT k, x FROM ticks WHERE x < 1"


def job(lines: str, sql: str = "", settings: str = "") -> str:
    """The good file with another stream, whose settings begin in its line 7."""
    text = GOOD[:START] + f'[streams.ticks]\n{lines}event_time = "ts"\n' + GOOD[END:]
    text = text.replace("SELECT symbol, price FROM ticks WHERE price < 1", sql) if sql else text
    return text.replace("engines = 4", settings) if settings else text


def own(folder: Path, lines: str, sql: str = "") -> OwnSource:
    (stream,) = read(folder, job(lines, sql)).streams
    assert stream.own is not None
    return stream.own


def test_files_are_read_from_the_folder_of_the_job_file(tmp_path: Path) -> None:
    found = own(tmp_path, FILES + 'format = "csv"\npartitions = ["north", "south"]\nstart = "latest"\n')
    assert isinstance(found.source, Files)
    assert found.path == str(tmp_path / "ticks")
    assert found.columns is not None
    assert found.columns.names == ["symbol", "ts", "price"]
    assert own(tmp_path, FILES.replace("ticks/", "s3://bucket/ticks")).path == "s3://bucket/ticks"


def test_columns_that_only_a_file_has_are_left_to_the_start(tmp_path: Path) -> None:
    file = read(tmp_path, job('source = "files"\npath = "ticks/"\n', "SELECT whatever FROM ticks"))
    assert list(unchecked(file)) == [
        "streams.ticks: its columns, which only its first file has",
        "queries.drops: its names and types: the columns of ticks are known when it is read",
    ]


def test_topics_are_one_or_several_and_start_at_a_time(tmp_path: Path) -> None:
    lines = KAFKA.replace('"ticks"', '["ticks", "more"]') + 'start = 2026-01-01T12:00:00Z\ncolumns = ["offset"]\n'
    found = own(tmp_path, lines, "SELECT price, `offset` FROM ticks")
    assert isinstance(found.source, Kafka)
    assert found.source.topics == ("ticks", "more")
    assert found.source.start == datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    assert found.servers == "localhost:1"
    plain = own(tmp_path, KAFKA + "options = { security.protocol = 'plaintext' }\n").source
    assert isinstance(plain, Kafka)
    assert plain.topics == ("ticks",)


def test_rate_takes_its_settings_and_has_columns_of_its_own(tmp_path: Path) -> None:
    lines = 'source = "rate"\nrows = 10\npartitions = 2\nkeys = 3\nskew = 1\nseed = 7\nstart = 2030-01-01T00:00:00\n'
    found = own(tmp_path, lines, OVER_RATE).source
    assert isinstance(found, Rate)
    assert found.latest() == {"0": 5, "1": 5}
    assert found.read(Range("0", 0, 1)).table["ts"][0].as_py().year == 2030


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        ('source = "fils"\n', '7: streams.ticks.source: "fils" is not one; did you mean files?'),
        ("source = 1\n", "7: streams.ticks.source: 1 is not a text"),
        (FILES + 'pth = "x"\n', "10: streams.ticks.pth: there is no such setting; did you mean path?"),
        (FILES.replace("ticks/", ""), "8: streams.ticks.path: it is empty; name the folder with the files"),
        (FILES + 'format = "orc"\n', '10: streams.ticks.format: "orc" is not one; write parquet, csv, json, arrow'),
        (
            FILES + 'partition_by = "symbol"\n',
            "10: streams.ticks.partition_by: the source knows its partitions; leave it out",
        ),
        (
            FILES + 'select = ["price"]\n',
            "10: streams.ticks.select: trimtab reads this stream itself, and computes nothing before its queries; "
            "compute it in the query",
        ),
        (FILES.replace("BIGINT", "BIGIN"), "9: streams.ticks.schema: "),
        (
            FILES.replace("ts TIMESTAMP", "ts BIGINT"),
            "10: streams.ticks.event_time: column ts is int64, not a time; declare it as TIMESTAMP",
        ),
        (
            FILES.replace("ts TIMESTAMP", "at TIMESTAMP"),
            "10: streams.ticks.event_time: there is no column ts; the columns are symbol, at, price",
        ),
        (
            KAFKA.replace('topics = "ticks"\n', ""),
            '6: streams.ticks.topics: it is missing; name the topics: topics = ["ticks"]',
        ),
        (KAFKA.replace("topics", "topcs"), "9: streams.ticks.topcs: there is no such setting; did you mean topics?"),
        (
            KAFKA.replace('topics = "ticks"', 'topics = ["ticks", "ticks"]'),
            "9: streams.ticks.topics: ('ticks', 'ticks') aren't different names of topics; name at least one, once",
        ),
        (KAFKA.replace("price DOUBLE", "price MAP<STRING, DOUBLE>"), "10: streams.ticks.schema: "),
        (
            KAFKA + 'value = "bytes"\n',
            "10: streams.ticks.schema: bytes has the one column value, and no schema; leave schema out, or give ",
        ),
        (
            KAFKA + 'columns = ["ofset"]\n',
            "11: streams.ticks.columns: messages of Kafka have no ofset; columns may be key, topic, ",
        ),
        (KAFKA + "start = 2026-01-01T00:00:00\n", "11: streams.ticks.start: 2026-01-01 00:00:00 has no zone; "),
        (KAFKA + 'start = "first"\n', '11: streams.ticks.start: "first" is not one; write earliest, latest'),
        (
            KAFKA + "start = 2026-01-01\n",
            '11: streams.ticks.start: 2026-01-01 is not a point in time; write "earliest", "latest", or ',
        ),
        (
            KAFKA + 'options = { bootstrap.servers = "x" }\n',
            "11: streams.ticks.options.bootstrap.servers: it can't be given: they are the argument servers; ",
        ),
        (
            'source = "rate"\n',
            "6: streams.ticks.rows_per_s: it is missing; write how many rows appear each second, or how many rows ",
        ),
        (
            RATE.replace("1000", "0"),
            "8: streams.ticks.rows_per_s: 0 rows a second are no rate; leave it out if all rows are there at once",
        ),
        (RATE + "keys = 0\n", "9: streams.ticks.keys: 0 is not a whole number from 1 to 10,000,000"),
        (RATE + 'schema = "x DOUBLE"\n', "9: streams.ticks.schema: rate makes its rows up: k BIGINT, ts TIMESTAMP, "),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_what_to_do(tmp_path: Path, lines: str, reported: str) -> None:
    found = mistake(tmp_path, job(lines, OVER_RATE if "rate" in lines else ""))
    assert found.startswith(f"job.toml:{reported}")


def test_options_that_librdkafka_does_not_have_are_refused_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    found = mistakes(tmp_path, job(KAFKA + "options = { security.protocl = 'ssl', fetch.min.bytes = 'many' }\n"))
    assert 'options.security.protocl: No such configuration property: "security.protocl"' in found[1]
    assert 'options.fetch.min.bytes: Invalid value for configuration property "fetch.min.bytes"' in found[2]


def test_options_that_load_code_are_not_tried_out() -> None:
    assert kafka_clients.wrong_options({"plugin.library.paths": "/nowhere/evil", "ssl.engine.location": "evil"}) == {}


def test_queries_are_checked_over_the_columns_of_the_source(tmp_path: Path) -> None:
    found = mistakes(tmp_path, job(RATE, "SELECT k, y FROM ticks"))
    assert "queries.drops.sql: error[query.column]: no column named y" in found[0]


def test_a_query_that_takes_its_stream_through_the_jvm_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reversed_sql = "SELECT reverse(CAST({} AS STRING)) AS name FROM ticks"
    unknown = job('source = "files"\npath = "ticks/"\n', "SELECT reverse(whatever) AS name FROM ticks")
    by_spark = GOOD.replace("SELECT symbol, price FROM ticks WHERE price < 1", reversed_sql.format("symbol"))
    for text in (job(RATE, OVER_RATE), unknown, by_spark):
        assert list(slow_streams(read(tmp_path, text))) == []
    (told,) = slow_streams(read(tmp_path, job(RATE, reversed_sql.format("k"))))
    assert told == (
        "all rows of stream ticks go through the JVM, which takes longer than over columns, because of query drops: "
        "REVERSE(CAST(k AS STRING)): reverse isn't known to give the same here as in Spark"
    )

    def no_session(_: object) -> None:
        raise JobError("job.spark", "Spark would have been started")

    live = run_command._View("job.toml", Live(console=Console(file=io.StringIO()), auto_refresh=False))
    monkeypatch.setattr(
        run_command, "SPARK", Backend(check=lambda: None, session=no_session, job=lambda *_, **__: None)
    )
    monkeypatch.setattr(run_command, "_view", lambda *_, **__: live)
    for arguments, status in ((["--check"], 0), ([], 1)):
        assert main(["run", *arguments, str(tmp_path / "job.toml")]) == status
        assert told in capsys.readouterr().out.splitlines()


def test_a_sink_may_not_write_where_files_are_read(tmp_path: Path) -> None:
    found = mistake(tmp_path, job(FILES).replace('"out/"', '"ticks/out"'))
    assert "streams.ticks.path: queries.drops.sinks[0] writes to" in found


def test_a_folder_that_is_read_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"streams\.ticks\.path: there is no folder"):
        check_before_spark(read(tmp_path, job(FILES)))
    (tmp_path / "ticks").mkdir()
    check_before_spark(read(tmp_path, job(FILES)))


def test_a_broker_has_to_answer_and_the_client_has_to_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = read(tmp_path, job(KAFKA))
    assert "streams.ticks.topics: whether the topics exist and may be read" in unchecked(file)
    monkeypatch.setattr("trimtab.cli.before_spark.confluent_kafka", lambda: None)
    with pytest.raises(JobError, match=r"streams\.ticks\.servers: no broker can be reached") as caught:
        check_before_spark(file)
    assert caught.value.code == "job.source"

    def lacking() -> None:
        raise JobError("source.package", "reading Kafka needs the package confluent-kafka")

    monkeypatch.setattr("trimtab.cli.before_spark.confluent_kafka", lacking)
    with pytest.raises(JobError, match="confluent-kafka"):
        check_before_spark(file)


# The intake ------------------------------------------------------------------------------------


def test_a_stream_that_was_read_another_way_says_where_it_goes_on(tmp_path: Path) -> None:
    (stream,) = read(tmp_path, job(KAFKA + 'start_at = { "ticks:0" = 12, "ticks:1" = 0 }\n')).streams
    assert stream.time["start_at"] == {"ticks:0": 12, "ticks:1": 0}
    (stream,) = read(tmp_path, GOOD.replace("[queries", 'start_at = "own"\n[queries', 1)).streams
    assert stream.time["start_at"] == "own"
    found = mistake(tmp_path, job(KAFKA + 'start_at = { "ticks:0" = "x" }\n'))
    assert "start_at={'ticks:0': 'x'} of stream ticks has no position for each partition" in found
    assert 'start_at: "latest" is not one; write own' in mistake(tmp_path, job(KAFKA + 'start_at = "latest"\n'))
    found = mistake(tmp_path, GOOD.replace("[queries", "start_at = { a = 1 }\n[queries", 1))
    assert "the positions of a DataFrame are Spark's" in found


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("engines = 4", Intake()),
        ('intake = "none"', None),
        ("intake = { batch_s = 0.5 }", Intake(batch_s=0.5)),
        ("intake = { latency_s = 2 }", Intake(latency_s=2)),
        ("intake = { free_memory_share = 0.3 }", Intake(free_memory_share=0.3)),
        (
            "intake = { backlog_rows = 100, min_rows = 1, max_rows = 9, max_bytes = 8, first_rows = 7 }",
            Intake(backlog_rows=100, min_rows=1, max_rows=9, max_bytes=8, first_rows=7),
        ),
    ],
)
def test_the_intake_is_a_section_or_none(tmp_path: Path, written: str, meant: Intake | None) -> None:
    assert read(tmp_path, job(RATE, OVER_RATE, written)).intake == meant


@pytest.mark.parametrize(
    ("written", "reported"),
    [
        ("intake = 1", "job.intake: 1 is not a text"),
        ('intake = "all"', 'job.intake: "all" is not one; write none'),
        ("intake.batch_s = 0", "job.intake.batch_s: batch_s is 0; it must be above 0"),
        ("intake.batch_s = -1", "job.intake.batch_s: -1 is not a number from 0 on"),
        (
            "intake.free_memory_share = 30",
            "job.intake.free_memory_share: free_memory_share is 30; it must be between 0 and 1",
        ),
        ("intake.max_rows = 1.5", "job.intake.max_rows: 1.5 is not a whole number from 0 on"),
        (
            "intake.max_rows = 10",
            "job.intake.max_rows: min_rows is 1000 and max_rows 10; min_rows must be the smaller one",
        ),
        ("intake.batchs = 1", "job.intake.batchs: there is no such setting; did you mean batch_s?"),
        (
            "intake = { batch_s = 1, backlog_rows = 1 }",
            "job.intake.batch_s: batch_s and backlog_rows are given; one measure can be held: give one of them",
        ),
    ],
)
def test_a_mistake_in_the_intake_is_reported(tmp_path: Path, written: str, reported: str) -> None:
    assert mistake(tmp_path, job(RATE, OVER_RATE, written)) == f"job.toml:3: {reported}"


def test_an_intake_that_limits_no_stream_is_a_mistake(tmp_path: Path) -> None:
    found = mistake(tmp_path, GOOD.replace("engines = 4", "intake = { batch_s = 1 }"))
    assert found.startswith("job.toml:3: job.intake: trimtab reads no stream of this job itself; ")
