"""Job files: what a good one is read as, and that the documents show good ones."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.job_files import GOOD, mistakes, read
from trimtab.cli.job_file import OWN_SINKS, read_job_file
from trimtab.cli.job_sections import JobFile, QuerySection, SinkSection, StreamSection
from trimtab.cli.toml import line_of, setting_lines
from trimtab.deciding.policy import Balance, Scale
from trimtab.errors import JobError
from trimtab.spark.sink_formats import PARQUET_OPTIONS

pytestmark = pytest.mark.usefixtures("own_path")


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


def test_parquet_files_may_be_in_folders_named_by_columns(tmp_path: Path) -> None:
    job = read(tmp_path, f'{GOOD}options = {{ partition_by = "symbol" }}\n')
    assert job.queries[0].sinks[0].options == {"path": str(tmp_path / "out"), "partition_by": "symbol"}
    assert OWN_SINKS["parquet"] == PARQUET_OPTIONS


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


def test_a_query_has_to_be_ordered_by_the_event_time_of_its_stream(tmp_path: Path) -> None:
    pattern = "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY price PATTERN (A B))"
    text = GOOD.replace("SELECT symbol, price FROM ticks WHERE price < 1", pattern)
    assert "queries.drops.sql" in mistakes(tmp_path, text)[0]
    assert read(tmp_path, text.replace("ORDER BY price", "ORDER BY ts")).queries


@pytest.mark.parametrize("select", ["from_json(price, 'x INT').x AS prise", "a_function_of_sparks(price) AS prise"])
def test_what_only_spark_knows_is_left_to_it(tmp_path: Path, select: str) -> None:
    text = GOOD.replace('delay = "2 seconds"', f'select = ["symbol", "ts", "{select}"]')
    assert read(tmp_path, text.replace("symbol, price FROM", "symbol, prise FROM")).queries
    nested = GOOD.replace("price DOUBLE", "prices MAP<STRING, DOUBLE>")
    assert read(tmp_path, nested.replace("SELECT symbol, price", "SELECT prices")).queries


def test_a_query_sees_the_columns_that_select_makes(tmp_path: Path) -> None:
    text = GOOD.replace('delay = "2 seconds"', 'select = ["symbol", "ts", "price * 2 AS twice"]')
    assert "no column named price" in mistakes(tmp_path, text)[0]
    assert read(tmp_path, text.replace("symbol, price FROM ticks WHERE price", "twice FROM ticks WHERE twice"))


DOCUMENT = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_documents_are_good_files(tmp_path: Path) -> None:
    first, whole, own = EXAMPLES
    (tmp_path / "alerts.py").write_text("def send(rows, batch): ...\n")
    windows = "SELECT symbol, sum(amount) AS amount FROM trades GROUP BY symbol, window(ts, '1 minute')"
    (tmp_path / "load.sql").write_text(windows)
    assert [query.name for query in read(tmp_path, first).queries] == ["drops"]
    assert [query.name for query in read(tmp_path, whole).queries] == ["drops", "load"]
    assert [stream.own and stream.own.kind for stream in read(tmp_path, own).streams] == ["files", "kafka", "rate"]


def test_every_setting_is_documented() -> None:
    parts = (JobFile, StreamSection, QuerySection, SinkSection)
    settings = {each.name for part in parts for each in fields(part)}
    settings -= {"name", "streams", "queries", "are_modules_imported", "time", "own"}
    settings |= {"partition_by", "partitions", "idle_after", "max_ahead", "source"}
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
