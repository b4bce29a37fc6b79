"""Job files: what a good one is read as, and the report of every mistake in a bad one."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.cli.job_file import read_job_file
from trimtab.cli.job_sections import JobFile, QuerySection, SinkSection, StreamSection
from trimtab.cli.toml import line_of, setting_lines
from trimtab.deciding.policy import Balance, Scale
from trimtab.errors import JobError

GOOD = """\
[job]
checkpoint = "checkpoint"
engines = 4
trigger = "200 milliseconds"

[streams.ticks]
format = "parquet"
path = "ticks/"
schema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"
event_time = "ts"
delay = "2 seconds"

[queries.drops]
sql = "SELECT symbol, price FROM ticks WHERE price < 1"

[[queries.drops.sinks]]
format = "parquet"
path = "out/"
"""


@pytest.fixture(autouse=True)
def _own_path() -> Iterator[None]:
    """Reading a file puts its folder on the path; the next test has its own."""
    before, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = before
    for name in set(sys.modules) - modules:
        if name.startswith("job_module") or name == "alerts":
            del sys.modules[name]


def read(folder: Path, text: str) -> JobFile:
    (folder / "job.toml").write_text(text, encoding="utf-8")
    return read_job_file(folder / "job.toml")


def mistakes(folder: Path, text: str) -> list[str]:
    """The lines of the error, without the folder that the test happens to run in."""
    with pytest.raises(JobError) as caught:
        read(folder, text)
    assert caught.value.code == "job.file"
    return str(caught.value).replace(f"{folder}/", "").split("\n")


def mistake(folder: Path, text: str) -> str:
    """The only mistake."""
    (line,) = mistakes(folder, text)
    return line.removeprefix("error[job.file]: ")


def test_a_small_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    job = read(tmp_path, GOOD)
    assert (job.engines, job.key_groups, job.trigger, job.available_now, job.close) == (
        4,
        1024,
        "200 milliseconds",
        False,
        False,
    )
    (stream,) = job.streams
    assert (stream.name, stream.format, stream.event_time, stream.delay) == ("ticks", "parquet", "ts", "2 seconds")
    (query,) = job.queries
    assert query.sql == "SELECT symbol, price FROM ticks WHERE price < 1"
    assert not query.reset
    with pytest.raises(FrozenInstanceError):
        job.engines = 5  # type: ignore[misc]


def test_paths_count_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.toml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    job = read_job_file(Path("job.toml"))
    assert job.checkpoint == str(tmp_path / "checkpoint")
    assert job.streams[0].options == {"path": str(tmp_path / "ticks")}
    assert job.queries[0].sinks == (SinkSection("parquet", {"path": str(tmp_path / "out")}),)


def test_a_path_that_names_its_file_system_stays(tmp_path: Path) -> None:
    job = read(tmp_path, GOOD.replace('"checkpoint"', '"s3://bucket/state"').replace('"out/"', '"file:/out"'))
    assert job.checkpoint == "s3://bucket/state"
    assert job.queries[0].sinks[0].options["path"] == "file:/out"


def test_everything_that_can_be_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "job_module_sinks.py").write_text("def store(rows, batch): ...\n")
    (tmp_path / "drops.sql").write_text("SELECT k FROM events")
    job = read(
        tmp_path,
        """
        [job]
        checkpoint = "c"
        engines = 2
        key_groups = 64
        available_now = true
        close = true
        [spark]
        master = "local[2]"
        [spark.conf]
        spark.sql.shuffle.partitions = 4
        "spark.ui.enabled" = false
        [streams.events]
        format = "kafka"
        event_time = "timestamp"
        select = ["CAST(key AS STRING) AS k", "timestamp"]
        where = "topic <> 'noise'"
        [streams.events.options]
        kafka.bootstrap.servers = "broker:9092"
        subscribe = "events"
        [streams.events.late]
        format = "json"
        path = "late"
        [streams.events.quarantine]
        python = "job_module_sinks:store"
        [queries.drops]
        file = "drops.sql"
        reset = true
        split = "consistent"
        [[queries.drops.sinks]]
        format = "console"
        [queries.drops.sinks.options]
        rows = 5
        [[queries.drops.sinks]]
        python = "job_module_sinks:store"
        """,
    )
    assert (job.key_groups, job.available_now, job.close, job.master) == (64, True, True, "local[2]")
    assert job.conf == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}
    assert job.streams == (
        StreamSection(
            name="events",
            format="kafka",
            event_time="timestamp",
            options={"kafka.bootstrap.servers": "broker:9092", "subscribe": "events"},
            select=("CAST(key AS STRING) AS k", "timestamp"),
            where="topic <> 'noise'",
            late=SinkSection("json", {"path": str(tmp_path / "late")}),
            quarantine=SinkSection(python="job_module_sinks:store"),
        ),
    )
    assert job.queries[0].sql == "SELECT k FROM events"
    assert job.queries[0].reset
    assert job.queries[0].split == "consistent"
    assert job.queries[0].sinks == (SinkSection("console", {"rows": "5"}), SinkSection(python="job_module_sinks:store"))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", Balance()),
        ('balance = "flux"', Balance(planner="flux")),
        ('balance = "none"', None),
        ("balance.max_rstd = 5", Balance(max_rstd=5)),
        (
            'balance = { planner = "dlb-heavy", measure = "events", max_rstd = "none", max_load_distance = 7.5 }',
            Balance(planner="dlb-heavy", measure="events", max_rstd=None, max_load_distance=7.5),
        ),
    ],
)
def test_balance_is_a_name_or_a_section(tmp_path: Path, written: str, meant: Balance | None) -> None:
    job = read(tmp_path, GOOD.replace("engines = 4", f"engines = 4\n{written}"))
    assert (job.balance, job.scale) == (meant, None)


def test_every_field_of_balance_and_scale_can_be_written(tmp_path: Path) -> None:
    balance = Balance(planner="lptf", max_moves=9, max_state_bytes=10, time_limit_s=0.5, period_s=3.0, min_gain=0.2)
    scale = Scale(max_engines=8, interval_s=0.5, low=30.0)
    text = GOOD.replace(
        "trigger =", f"balance = {inline(balance.as_json())}\nscale = {inline(scale.as_json())}\ntrigger ="
    )
    job = read(tmp_path, text)
    assert job.balance is not None
    assert (job.balance.as_json(), job.scale) == (balance.as_json(), scale)


def inline(values: dict[str, object]) -> str:
    """A table of TOML in one line."""
    parts = [f"{name} = {toml('none' if value is None else value)}" for name, value in values.items()]
    return f"{{ {', '.join(parts)} }}"


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (
            "engines = 4",
            'balance = "mlip"',
            'job.toml:3: job.balance: there is no way of balancing called "mlip"; did you mean milp?',
        ),
        ("engines = 4", "balance = 3", "job.toml:3: job.balance: 3 is not a text"),
        (
            "engines = 4",
            "balance.max_rstd = -1",
            'job.toml:3: job.balance.max_rstd: -1 is not a number from 0 on; write a number, or "none"',
        ),
        (
            "engines = 4",
            "balance.patience = 0",
            "job.toml:3: job.balance.patience: patience is 0; it must be 1 or more",
        ),
        (
            "engines = 4",
            "balance.patience = 1.5",
            "job.toml:3: job.balance.patience: 1.5 is not a whole number from 0 on",
        ),
        (
            "engines = 4",
            "balance.max_rsdt = 1",
            "job.toml:3: job.balance.max_rsdt: there is no such setting; did you mean max_rstd?",
        ),
        (
            "engines = 4",
            'balance.measure = "work"',
            'job.toml:3: job.balance.measure: "work" is not one; write busy, events, state',
        ),
        (
            "engines = 4",
            "scale = { target = 50 }",
            "job.toml:3: job.scale.max_engines: it is missing; write how many engines there may be: max_engines = 8",
        ),
        (
            "engines = 4",
            "engines = 4\nscale = { max_engines = 2 }",
            "job.toml:4: job.scale: engines is 4, and scale goes from 1 to 2; give a number in that range, or none",
        ),
        (
            "engines = 4",
            "key_groups = 4\nscale = { max_engines = 5 }",
            "job.toml:4: job.scale: 5 engines can't share 4 key groups; "
            "an engine needs at least one; ask for fewer engines",
        ),
        ("engines = 4", "engins = 4", "job.toml:3: job.engins: there is no such setting; did you mean engines?"),
        (
            'checkpoint = "checkpoint"',
            "",
            'job.toml:1: job.checkpoint: it is missing; write the folder for the state: checkpoint = "checkpoint"',
        ),
        (
            "engines = 4",
            "engines = 4\nkey_groups = 3",
            "job.toml:3: job.engines: 4 engines share 3 key groups; an engine needs one at least",
        ),
        (
            "queries.drops",
            "queries.my-drops",
            "job.toml:13: queries.my-drops: this can't be its name; use letters, digits and _, and begin with a letter",
        ),
        (
            "[queries.drops]",
            '[queries.drops]\nsplit = "shuffle"',
            'job.toml:14: queries.drops.split: "shuffle" is not one; write pkg, random-choices, consistent',
        ),
        ("engines = 4", "engines = 0", "job.toml:3: job.engines: 0 is not a whole number from 1 to 4,096"),
        ("engines = 4", "engines = true", "job.toml:3: job.engines: true is not a whole number from 1 to 4,096"),
        (
            "engines = 4",
            "engines = 4\nkey_groups = 40000",
            "job.toml:4: job.key_groups: 40000 is not a whole number from 1 to 32,768",
        ),
        (
            '"200 milliseconds"',
            '"often"',
            'job.toml:4: job.trigger: "often" is not a length of time; write for example "2 seconds"',
        ),
        (
            'trigger = "200 milliseconds"',
            "close = true",
            "job.toml:4: job.close: only input that ends can be closed; write available_now = true too",
        ),
        (
            "engines = 4",
            "engines = 4\navailable_now = true",
            "job.toml:5: job.trigger: it is not used together with available_now; leave one of them",
        ),
        (
            '"2 seconds"',
            "2",
            'job.toml:11: streams.ticks.delay: 2 is not a length of time; write for example "2 seconds"',
        ),
        (
            'event_time = "ts"',
            'event_time = "tss"',
            "job.toml:10: streams.ticks.event_time: there is no column tss; did you mean ts?",
        ),
        (
            'event_time = "ts"',
            'event_time = "price"',
            "job.toml:10: streams.ticks.event_time: column price is double, not a time; "
            "cast it in select: CAST(... AS TIMESTAMP)",
        ),
        (
            'path = "ticks/"',
            "",
            "job.toml:6: streams.ticks.path: it is missing; parquet reads files: name their folder",
        ),
        (
            "price DOUBLE",
            "price DUBLE",
            'job.toml:9: streams.ticks.schema: it can\'t be read; write names and types: "symbol BIGINT, ts TIMESTAMP"',
        ),
        (
            'format = "parquet"\npath = "out/"',
            'formt = "parquet"',
            "job.toml:17: queries.drops.sinks[0].formt: there is no such setting; did you mean format?",
        ),
        (
            'path = "out/"',
            "",
            "job.toml:16: queries.drops.sinks[0].path: it is missing; parquet writes files: name their folder",
        ),
        (
            'path = "out/"',
            'path = "./ticks"',
            "job.toml:8: streams.ticks.path: queries.drops.sinks[0] writes there; "
            "a job that reads its own output never ends",
        ),
        (
            'path = "out/"',
            'path = "ticks/falls"',
            "job.toml:8: streams.ticks.path: queries.drops.sinks[0] writes to ticks/falls, which is a part of it; "
            "a job that reads its own output never ends",
        ),
        (
            'path = "ticks/"',
            'path = "out/ticks"',
            "job.toml:8: streams.ticks.path: queries.drops.sinks[0] writes around it, to out; "
            "give the sink a folder of its own",
        ),
        (
            'path = "out/"',
            'path = "./checkpoint/falls"',
            "job.toml:18: queries.drops.sinks[0].path: the checkpoint is there; give the sink a folder of its own",
        ),
        (
            'path = "out/"',
            'path = "checkpoint"',
            "job.toml:18: queries.drops.sinks[0].path: the checkpoint is there; give the sink a folder of its own",
        ),
        (
            'event_time = "ts"',
            'event_time = "ts"\npartition_by = "simbol"\npartitions = 2',
            "job.toml:11: streams.ticks.partition_by: there is no column simbol; did you mean symbol?",
        ),
        (
            'delay = "2 seconds"',
            "options = { maxFilesPerTriger = 1, MAXFILEAGE = '1d', fs.s3a.endpoint = 'here' }",
            "job.toml:11: streams.ticks.options.maxFilesPerTriger: parquet has no such option; "
            "did you mean maxFilesPerTrigger?",
        ),
        (
            '[[queries.drops.sinks]]\nformat = "parquet"\npath = "out/"',
            "",
            "job.toml:13: queries.drops.sinks: there are none; write [[queries.drops.sinks]] with a format",
        ),
        (
            "[[queries.drops.sinks]]",
            "[queries.drops.sinks]",
            "job.toml:16: queries.drops.sinks: it is not a list of sections; "
            "write [[queries.drops.sinks]] with two brackets",
        ),
        ("[job]", "[jobs]\n[job]", "job.toml:1: jobs: there is no such setting; did you mean job?"),
        (
            'sql = "SELECT symbol, price FROM ticks WHERE price < 1"',
            'file = "drops.sql"',
            "job.toml:14: queries.drops.file: drops.sql can't be read: No such file or directory",
        ),
        (
            'sql = "SELECT symbol, price FROM ticks WHERE price < 1"',
            "",
            "job.toml:13: queries.drops: there is neither sql nor file; write one of them",
        ),
        (
            'path = "out/"',
            'path = "out/"\n[[queries.drops.sinks]]\nformat = "csv"\npath = "./out"',
            "job.toml:21: queries.drops.sinks[1].path: queries.drops.sinks[0] writes there too; "
            "give each sink a folder of its own",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'python = "job_module_missing:f"',
            "job.toml:17: queries.drops.sinks[0].python: job_module_missing can't be imported: ModuleNotFoundError: "
            "No module named 'job_module_missing'; write it as in an import: package.module, without .py",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'python = "json:nothing"',
            "job.toml:17: queries.drops.sinks[0].python: json has no function nothing",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'python = "json"',
            'job.toml:17: queries.drops.sinks[0].python: "json" names no function; write "module:function"',
        ),
        (
            'path = "out/"',
            'path = "out/"\n[queries.drops.sinks.options]\ncompresion = "zstd"',
            "job.toml:20: queries.drops.sinks[0].options.compresion: parquet has no such option; "
            "did you mean compression?",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'format = "memory"\npath = "out/"',
            "job.toml:18: queries.drops.sinks[0].path: memory has no such option; there is view",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'format = "console"\noptions.rows = "few"',
            "job.toml:18: queries.drops.sinks[0].options.rows: few is not a whole number",
        ),
        (
            'format = "parquet"\npath = "ticks/"',
            'format = "rate"',
            "job.toml:8: streams.ticks.schema: rate has columns of its own; "
            "leave it out: timestamp TIMESTAMP, value BIGINT",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line_place_and_hint(tmp_path: Path, old: str, new: str, reported: str) -> None:
    assert old in GOOD
    assert mistake(tmp_path, GOOD.replace(old, new)) == reported


@pytest.mark.parametrize(("source", "sink"), [("ticks/", "ticks/_out"), ("data/t*", "data/out"), ("out-1", "out")])
def test_a_sink_may_be_near_a_source_that_does_not_read_it(tmp_path: Path, source: str, sink: str) -> None:
    assert read(tmp_path, GOOD.replace('"ticks/"', f'"{source}"').replace('"out/"', f'"{sink}"'))


def test_a_misspelt_column_in_select_is_reported_and_taken_for_the_one_that_was_meant(tmp_path: Path) -> None:
    text = GOOD.replace('delay = "2 seconds"', 'select = ["symbl", "ts", "`prise` AS price"]')
    text = text.replace("price < 1", "prize < 1")
    assert mistakes(tmp_path, text) == [
        "error[job.file]: job.toml has 3 mistakes",
        "  job.toml:11: streams.ticks.select[0]: error[query.column]: no column named symbl",
        "    streams.ticks.select[0]:1:1",
        "      1 | symbl",
        "        | ^^^^^ did you mean symbol?",
        "  job.toml:11: streams.ticks.select[2]: error[query.column]: no column named prise",
        "    streams.ticks.select[2]:1:2",
        "      1 | `prise` AS price",
        "        |  ^^^^^ did you mean price?",
        "  job.toml:14: queries.drops.sql: error[query.column]: no column named prize",
        "    queries.drops.sql:1:39",
        "      1 | SELECT symbol, price FROM ticks WHERE prize < 1",
        "        |                                       ^^^^^ did you mean price?",
    ]
    known = GOOD.replace('delay = "2 seconds"', 'select = ["*", "_metadata", "current_date", "a_function(symbl) AS s"]')
    assert read(tmp_path, known).streams[0].select[1] == "_metadata"


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (
            'path = "out/"',
            'path = "out/"\n[queries.again]\nsql = "SELECT symbol FROM ticks"\n[[queries.again.sinks]]\n'
            'format = "memory"\n[[queries.drops.sinks]]\nformat = "memory"\noptions = { view = "Again" }',
            "queries.again.sinks[0].options.view: queries.drops.sinks[1] writes there too; "
            "give each sink a view of its own",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'format = "parket"\npath = "out/"',
            "job.toml:17: queries.drops.sinks[0].format: there is no format parket; did you mean parquet?",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'format = "rate"',
            "job.toml:17: queries.drops.sinks[0].format: rate: nothing can be written to it; there are parquet,",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'format = "kafka"\noptions = { topic = "drops" }',
            "queries.drops.sinks[0].options.kafka.bootstrap.servers: it is missing; kafka needs it",
        ),
        (
            'format = "parquet"\npath = "ticks/"\nschema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"\n'
            'event_time = "ts"',
            'format = "kafka"\nevent_time = "timestamp"\nselect = ["timestamp", "1 AS symbol", "2 AS price"]\n'
            'options = { kafka.bootstrap.servers = "broker:9092" }',
            "streams.ticks.options.subscribe: it is missing; kafka needs subscribe or subscribePattern or assign",
        ),
        (
            'format = "parquet"\npath = "ticks/"',
            'format = "console"',
            "streams.ticks.format: console: nothing can be read from it",
        ),
    ],
)
def test_a_source_or_sink_that_cannot_work_is_a_mistake(tmp_path: Path, old: str, new: str, reported: str) -> None:
    assert old in GOOD
    assert GOOD.count(old) == 1
    assert reported in mistake(tmp_path, GOOD.replace(old, new))


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        GOOD.replace("engines = 4", "engines = -1").replace('"2 seconds"', '"late"').replace("price < 1", "prise < 1")
    )
    first, *others = mistakes(tmp_path, text)
    assert first == "error[job.file]: job.toml has 3 mistakes"
    assert [line.split(": ")[0] for line in others if line.startswith("  job.toml")] == [
        "  job.toml:3",
        "  job.toml:11",
        "  job.toml:14",
    ]


def test_a_mistake_in_sql_is_underlined(tmp_path: Path) -> None:
    lines = mistakes(tmp_path, GOOD.replace("symbol, price FROM", "symbol, prise FROM"))
    assert lines == [
        "error[job.file]: job.toml:14: queries.drops.sql: error[query.column]: no column named prise",
        "  queries.drops.sql:1:16",
        "    1 | SELECT symbol, prise FROM ticks WHERE price < 1",
        "      |                ^^^^^ did you mean price?",
    ]


def test_a_mistake_in_a_file_of_sql_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "drops.sql").write_text("SELECT *\nFROM tics")
    lines = mistakes(
        tmp_path, GOOD.replace('sql = "SELECT symbol, price FROM ticks WHERE price < 1"', 'file = "drops.sql"')
    )
    assert lines[0].startswith("error[job.file]: job.toml:14: queries.drops.file: error[query.table]: ")
    assert lines[1] == "  drops.sql:2:6"


def test_a_query_has_to_be_ordered_by_the_event_time_of_its_stream(tmp_path: Path) -> None:
    pattern = "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY price PATTERN (A B))"
    text = GOOD.replace("SELECT symbol, price FROM ticks WHERE price < 1", pattern)
    assert "queries.drops.sql" in mistakes(tmp_path, text)[0]
    assert read(tmp_path, text.replace("ORDER BY price", "ORDER BY ts")).queries


@pytest.mark.parametrize("select", ["from_json(price, 'x INT').x AS prise", "a_function_of_sparks(price) AS prise"])
def test_what_only_spark_knows_is_left_to_it(tmp_path: Path, select: str) -> None:
    text = GOOD.replace('delay = "2 seconds"', f'select = ["symbol", "ts", "{select}"]')
    assert read(tmp_path, text.replace("symbol, price FROM", "symbol, prise FROM")).queries
    nested = GOOD.replace("price DOUBLE", "prices ARRAY<DOUBLE>")
    assert read(tmp_path, nested.replace("SELECT symbol, price", "SELECT prices")).queries


def test_a_query_sees_the_columns_that_select_makes(tmp_path: Path) -> None:
    text = GOOD.replace('delay = "2 seconds"', 'select = ["symbol", "ts", "price * 2 AS twice"]')
    assert "no column named price" in mistakes(tmp_path, text)[0]
    assert read(tmp_path, text.replace("symbol, price FROM ticks WHERE price", "twice FROM ticks WHERE twice"))


def test_text_that_is_not_toml_is_reported_with_its_place(tmp_path: Path) -> None:
    lines = mistakes(tmp_path, GOOD.replace("engines = 4", "engines 4"))
    assert lines[0].startswith("error[job.file]: job.toml:3:9: this is not TOML: ")


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(JobError, match=r"nowhere\.toml can't be read: No such file"):
        read_job_file(Path("nowhere.toml"))


def test_names_of_streams_differ_in_more_than_case(tmp_path: Path) -> None:
    second = "[streams.Ticks]\nformat = 'rate'\nevent_time = 'timestamp'\n"
    assert "streams.Ticks: streams.ticks has the same name" in mistake(tmp_path, GOOD + second)


def test_operators_are_imported_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "job_module_operators.py").write_text("1 / 0\n")
    text = GOOD.replace("engines = 4", 'engines = 4\noperators = ["job_module_operators"]')
    assert "job.operators[0]: job_module_operators can't be imported: ZeroDivisionError" in mistake(tmp_path, text)


DOCUMENT = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_documents_are_good_files(tmp_path: Path) -> None:
    first, whole = EXAMPLES
    (tmp_path / "alerts.py").write_text("def send(rows, batch): ...\n")
    windows = "SELECT symbol, sum(amount) AS amount FROM trades GROUP BY symbol, window(ts, '1 minute')"
    (tmp_path / "load.sql").write_text(windows)
    assert [query.name for query in read(tmp_path, first).queries] == ["drops"]
    assert [query.name for query in read(tmp_path, whole).queries] == ["drops", "load"]


def test_every_setting_is_documented() -> None:
    parts = (JobFile, StreamSection, QuerySection, SinkSection)
    settings = {each.name for part in parts for each in fields(part)}
    settings -= {"name", "streams", "queries", "are_modules_imported", "time"}
    settings |= {"partition_by", "partitions", "idle_after", "max_ahead"}
    assert [name for name in sorted(settings) if f"| `{name}` |" not in DOCUMENT] == []


def test_the_documents_show_the_real_report_of_mistakes(tmp_path: Path) -> None:
    text = (
        EXAMPLES[0]
        .replace("engines", "engins")
        .replace('"2 seconds"', '"two"')
        .replace("HIGH.price AS", "HIGH.prise AS")
    )
    shown = DOCUMENT.partition("$ trimtab run --check job.toml\n")[2].partition("```")[0]
    assert mistakes(tmp_path, text) == shown.splitlines()


def test_lines_are_found_around_strings_of_several_lines_and_in_lists() -> None:
    text = '[a]\ns = """\n[b]\nx = 1\n"""\n[[c.d]]\n[[c.d]]\n[c.d.e]\n"f.g" = 1\n'
    lines = setting_lines(text)
    assert lines == {"a": 1, "a.s": 2, "c": 6, "c.d[0]": 6, "c.d[1]": 7, "c.d[1].e": 8, "c.d[1].e.f.g": 9}
    assert line_of("c.d[1].e.nothing", lines) == 8
    assert line_of("nothing.at.all", lines) is None


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.sampled_from(["", "parquet", "ts", "2 seconds", "SELECT 1"]),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


@given(st.lists(st.tuples(st.integers(0, len(GOOD.splitlines()) - 1), _VALUES), max_size=4))
def test_any_contents_of_a_file_are_read_or_refused(changes: list[tuple[int, object]]) -> None:
    lines = GOOD.splitlines()
    for at, value in changes:
        key, equals, _ = lines[at].partition(" = ")
        if equals and value is not None:
            lines[at] = f"{key} = {toml(value)}"
        elif equals:
            lines[at] = ""
    with tempfile.TemporaryDirectory() as folder, suppress(JobError):
        assert read(Path(folder), "\n".join(lines)).queries


def toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(toml(each) for each in value if each is not None)}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def test_a_stream_may_say_how_its_rows_tell_the_time(tmp_path: Path) -> None:
    def times(*lines: str) -> dict[str, object]:
        (stream,) = read(tmp_path, GOOD.replace('delay = "2 seconds"', "\n".join(lines))).streams
        return dict(stream.time)

    assert times() == {}
    listed = times('partition_by = "symbol"', 'partitions = ["1", "2"]', 'idle_after = "1 minute"')
    assert listed == {"partition_by": "symbol", "partitions": ("1", "2"), "idle_after": "1 minute"}
    assert times('partition_by = "symbol"', "partitions = 8", 'max_ahead = "2 hours"') == {
        "partition_by": "symbol",
        "partitions": 8,
        "max_ahead": "2 hours",
    }
    assert times('max_ahead = "unlimited"') == {"max_ahead": None}


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('partition_by = "symbol"', "partitions"),
        ("partitions = 8", "partition_by"),
        ('partition_by = "symbol"\npartitions = 0', "partitions"),
        ('partition_by = "symbol"\npartitions = ["a", 1]', "partitions"),
        ('idle_after = "soon"', "idle_after"),
        ("max_ahead = 3", "max_ahead"),
    ],
)
def test_mistakes_in_how_rows_tell_the_time_are_reported(tmp_path: Path, line: str, place: str) -> None:
    with pytest.raises(JobError, match=rf"streams\.ticks\.{place}: "):
        read(tmp_path, GOOD.replace('delay = "2 seconds"', line))
