"""Job files: the report of every mistake in a bad one. Long, because the mistakes are a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.job_files import GOOD, mistake, mistakes, read
from trimtab.cli.job_file import read_job_file
from trimtab.errors import JobError

pytestmark = pytest.mark.usefixtures("own_path")


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
            "queries.drops.sinks[0].options.servers: it is missing; kafka needs it",
        ),
        (
            'format = "parquet"\npath = "out/"',
            'format = "kafka"\noptions = { servers = "broker:9092" }',
            "queries.drops.sinks[0].options.topic: it is missing; kafka needs it",
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
