"""`job.toml`: the description of a job. Read it, check all of it, and return it as plain values (`JobFile`).

Nothing here starts Spark. Queries are compiled where the columns of their stream are known without it, so most
mistakes in SQL are found before a session is started. `docs/running.md` is the reference.
"""

from __future__ import annotations

import difflib
import os
import pkgutil
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.cli.files import import_from, look_for
from trimtab.cli.job_balance import read_balance_and_scale
from trimtab.cli.job_intake import read_intake
from trimtab.cli.job_queries import OWN_COLUMNS, Streams, check_columns, compile_known, known_streams
from trimtab.cli.job_sections import DEFAULT_KEY_GROUPS, JobFile, QuerySection, SinkSection, StreamSection
from trimtab.cli.job_sources import MOST_PARTITIONS, OWN_SOURCES, read_source
from trimtab.cli.toml import MISSING, Mistake, Section, line_of, setting_lines
from trimtab.deciding.placement import SCHEMES
from trimtab.errors import JobError, QueryError, TrimtabError
from trimtab.language.compile import check_syntax
from trimtab.language.mistakes import did_you_mean
from trimtab.spark.sink_formats import FILE_FORMATS, READ_ONLY, SERVERS, is_within, missing_option, option, place_of
from trimtab.spark.source_options import unknown_options
from trimtab.state.checkpoint import MAX_KEY_GROUPS

_PARQUET = ("path", "compression", "partition_by", "partitionBy")
OWN_SINKS = {"parquet": _PARQUET, "console": ("rows",), "memory": ("view",)}
"""trimtab's own sinks and all their options; other formats are Spark's."""

PACKAGED = ("avro", "delta", "hudi", "iceberg", "kafka", "kinesis", "mongodb", "pulsar")
"""Formats that Spark has once their package is there."""
SINKS = (*FILE_FORMATS, *OWN_SINKS, *PACKAGED, "jdbc", "noop", "xml")
"""Formats whose names are known; there may be others, from packages and from Python."""

MAX_ENGINES = 4096

_PACKAGE_SETTINGS = ("spark.jars", "spark.driver.extraClassPath", "spark.submit")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
EVENT_TIME = "name the column with the time of each event"
UNLIMITED = "unlimited"
"""What a job file says for `max_ahead=None`."""
SOURCES = tuple(dict.fromkeys((*FILE_FORMATS, *OWN_COLUMNS, *PACKAGED, "xml")))
_NEEDED: Mapping[str, Sequence[tuple[str, ...]]] = {
    "kafka": ((SERVERS,), ("subscribe", "subscribePattern", "assign")),
    "socket": (("host",), ("port",)),
}
"""Options that a source needs: one of each group."""


def read_job_file(path: Path, *, imports: bool = True) -> JobFile:
    """Read and check a job file.

    Modules with operators and sink functions are imported, with the file's folder first on the path; without `imports`
    they are only looked for, and no code of the job runs.

    Raises JobError `job.file`, which lists every mistake of the file with its line and its dotted place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise JobError("job.file", f"{path} can't be read: {reason}") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError("job.file", _syntax(path, str(error)), "see https://toml.io for the syntax") from error
    mistakes: list[Mistake] = []
    job = _Reader(path.absolute(), mistakes, imports).job(Section("", values, mistakes))
    if mistakes or job is None:
        raise JobError("job.file", _listed(path, mistakes, setting_lines(text)))
    return job


def _syntax(path: Path, message: str) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message)
    what, place = (found[1], f"{path}:{found[2]}:{found[3]}") if found else (message, str(path))
    return f"{place}: this is not TOML: {what[:1].lower()}{what[1:]}"


def _listed(path: Path, mistakes: list[Mistake], lines: Mapping[str, int]) -> str:
    """All mistakes, in the order of the file."""
    placed = [(line_of(mistake.place, lines), mistake) for mistake in mistakes]
    placed.sort(key=lambda pair: pair[0] or 0)
    texts = []
    for line, mistake in placed:
        hint = f"; {mistake.hint}" if mistake.hint else ""
        place = f"{path}:{line}" if line else str(path)
        texts.append(f"{place}: {mistake.place}: {mistake.message}{hint}")
    if len(texts) == 1:
        return texts[0]
    shown = "".join(f"\n  {text}".replace("\n", "\n  ").replace("\n    ", "\n  ", 1) for text in texts)
    return f"{path} has {len(texts)} mistakes{shown}"


@dataclass(slots=True)
class _Reader:
    """One reading of a file: each method notes the mistakes of its part and returns what it could read."""

    path: Path
    mistakes: list[Mistake]
    imports: bool = True
    written: dict[str, str] = field(default_factory=dict)  # folder or view -> the sink that writes it
    checkpoint: str = ""
    has_packages: bool = False  # whether there may be formats that aren't known here

    def job(self, root: Section) -> JobFile | None:
        settings = root.section("job", needed="write [job] with a checkpoint")
        spark = root.section("spark") or Section("spark", {}, self.mistakes)
        streams = root.named("streams", needed="write [streams.NAME] for each stream")
        queries = root.named("queries", needed="write [queries.NAME] for each query")
        root.finish()
        settings = settings or Section("job", {"checkpoint": "."}, self.mistakes)
        checkpoint = settings.text("checkpoint", needed='write the folder for the state: checkpoint = "checkpoint"')
        self.checkpoint = "" if checkpoint is None else self._absolute(checkpoint)
        engines = settings.whole("engines", most=MAX_ENGINES)
        key_groups = settings.whole("key_groups", most=MAX_KEY_GROUPS) or DEFAULT_KEY_GROUPS
        if engines is not None and engines > key_groups:
            settings.wrong(
                "engines", f"{engines} engines share {key_groups} key groups", "an engine needs one at least"
            )
        balance, scale = read_balance_and_scale(settings, engines, key_groups)
        intake, operators = read_intake(settings), settings.texts("operators")
        trigger, available_now, close = _trigger(settings)
        settings.finish()
        master, conf = spark.text("master"), spark.options("conf")
        spark.finish()
        self.has_packages = any(name.startswith(_PACKAGE_SETTINGS) for name in conf) or _has_python_sources()
        for i, module in enumerate(operators):
            self._import(settings, f"operators[{i}]", module)
        sources = [
            (self._own_stream if "source" in section.values else self._stream)(name, section)
            for name, section in streams
        ]
        _distinct(streams)
        if "intake" in settings.values and not any("source" in section.values for _, section in streams):
            hint = (
                'it is for streams with source = "files", "kafka" or "rate"; formats of Spark have options of their own'
            )
            settings.wrong("intake", "trimtab reads no stream of this job itself", hint)
        columns = known_streams([source for source in sources if source is not None])
        for source, (_, section) in zip(sources, streams, strict=True):
            if source is not None:
                check_columns(section, source, columns[source.name][0])
        known = columns if all(sources) else None
        selects = [self._query(name, section, known) for name, section in queries]
        for source, (_, section) in zip(sources, streams, strict=True):
            if source is not None and (place := place_of(source.format, source.options, "")):
                self._check_apart(section, place)
        if checkpoint is None or not all(sources) or not all(selects):
            return None
        return JobFile(
            path=self.path,
            checkpoint=self.checkpoint,
            engines=engines,
            streams=tuple(source for source in sources if source is not None),
            queries=tuple(select for select in selects if select is not None),
            key_groups=key_groups,
            balance=balance,
            scale=scale,
            intake=intake,
            trigger=trigger,
            available_now=available_now,
            close=close,
            operators=operators,
            master=master,
            conf=conf,
            are_modules_imported=self.imports,
        )

    def _stream(self, name: str, section: Section) -> StreamSection | None:
        format_ = _format(section, needed='write the source, such as format = "parquet"')
        section.known("source")
        path, schema = section.text("path"), section.text("schema")
        event_time = section.text("event_time", needed=EVENT_TIME)
        delay, time = section.length("delay") or "0 seconds", _partitions(section) | _silence(section)
        select, where = section.texts("select"), section.text("where")
        options = section.options("options")
        late, quarantine = (self._rejects(section, name, key) for key in ("late", "quarantine"))
        _check_name(name, section)
        options = self._with_path(section, path, options)
        if format_ in FILE_FORMATS:
            if "path" not in options and "path" not in section.values:
                section.wrong("path", MISSING, f"{format_} reads files: name their folder")
            if format_ != "text" and "schema" not in section.values:
                section.wrong("schema", MISSING, 'write the columns: "symbol BIGINT, ts TIMESTAMP"')
        elif format_ in OWN_COLUMNS and schema is not None:
            section.wrong("schema", f"{format_} has columns of its own", f"leave it out: {OWN_COLUMNS[format_]}")
        for names in _NEEDED.get(format_ or "", ()):
            if not any(option(options, name) for name in names):
                section.wrong(f"options.{names[0]}", MISSING, f"{format_} needs {' or '.join(names)}")
        self._check_format(section, format_, SOURCES, OWN_SINKS, "nothing can be read from it")
        for each, near in unknown_options(format_ or "", options).items():
            if near:
                section.wrong(f"options.{each}", f"{format_} has no such option", f"did you mean {near}?")
        section.finish()
        if format_ is None or event_time is None:
            return None
        return StreamSection(name, format_, event_time, delay, schema, options, select, where, late, quarantine, time)

    def _own_stream(self, name: str, section: Section) -> StreamSection | None:
        """A stream that trimtab reads itself."""
        own = read_source(section, self._absolute)
        event_time = section.text("event_time", needed=EVENT_TIME)
        delay, time = section.length("delay") or "0 seconds", _silence(section)
        late, quarantine = (self._rejects(section, name, key) for key in ("late", "quarantine"))
        _check_name(name, section)
        if section.values["source"] in OWN_SOURCES:  # otherwise it isn't known which settings there are
            section.finish()
        if own is None or event_time is None:
            return None
        options = {"path": own.path} if own.path else {}
        return StreamSection(
            name, "", event_time, delay, options=options, late=late, quarantine=quarantine, time=time, own=own
        )

    def _query(self, name: str, section: Section, columns: Streams | None) -> QuerySection | None:
        sql, file = section.text("sql"), section.text("file")
        reset = section.flag("reset")
        split = section.word("split", SCHEMES)
        sinks = tuple(self._sink(each, name) for each in section.sections("sinks"))
        section.finish()
        _check_name(name, section)
        if not section.values.get("sinks"):
            section.wrong("sinks", "there are none", f"write [[{section.at('sinks')}]] with a format")
        if ("sql" in section.values) == ("file" in section.values):
            found = "there are both sql and file" if "sql" in section.values else "there is neither sql nor file"
            section.wrong("", found, "write one of them")
            return None
        where = section.at("sql")
        if file is not None:
            where, sql = file, self._text_of(section, file)
        if sql is None:
            return None
        try:
            if columns is None:
                check_syntax(sql)
            else:
                compile_known(sql, columns, are_operators_known=self.imports)
        except QueryError as error:
            error.where = where
            section.wrong("sql" if file is None else "file", str(error))
        return QuerySection(name, sql, sinks, reset, split)

    def _check_apart(self, section: Section, source: str) -> None:
        """Note a sink inside or around a folder that is read; inside, Spark skips names that begin with _ or a dot."""
        for place, writer in self.written.items():
            if is_within(place, source) and not re.search(r"/[_.]", place.removeprefix(source)):
                where = "there" if place == source else f"to {place}, which is a part of it"
                section.wrong("path", f"{writer} writes {where}", "a job that reads its own output never ends")
            elif is_within(source, place):
                section.wrong("path", f"{writer} writes around it, to {place}", "give the sink a folder of its own")

    def _rejects(self, section: Section, name: str, key: str) -> SinkSection | None:
        found = section.section(key)
        return None if found is None else self._sink(found, f"{name}_{key}")

    def _check_format(
        self, section: Section, format_: str | None, known: Sequence[str], others: Collection[str], wrong: str
    ) -> None:
        """Note a format of the other kind, or one that is probably misspelt; Spark may know what isn't known here."""
        if format_ is None or format_ in known:
            return
        if format_ in others:
            section.wrong("format", f"{format_}: {wrong}", f"there are {', '.join(known)}")
        elif not self.has_packages and (near := difflib.get_close_matches(format_, known, 1, cutoff=0.75)):
            section.wrong("format", f"there is no format {format_}", f"did you mean {near[0]}?")

    def _sink(self, section: Section, name: str) -> SinkSection:
        format_, python, path = _format(section), section.text("python"), section.text("path")
        options = self._with_path(section, path, section.options("options"))
        if "format" in section.values and "python" in section.values:
            section.wrong("python", "there is a format too", "a sink is one or the other")
        elif "python" not in section.values and "format" not in section.values:
            section.wrong("format", MISSING, 'write format = "parquet", or python = "module:function"')
        elif python is not None:
            if options:
                section.wrong("", "a function takes neither path nor options", "put them into the function itself")
            self._import(section, "python", python)
        elif format_ is not None:
            self._check_format(section, format_, SINKS, READ_ONLY, "nothing can be written to it")
            _check_options(section, format_, options)
            self._check_place(section, format_, options, name)
        section.finish()
        return SinkSection(format_ or "", options, python or "")

    def _check_place(self, section: Section, format_: str, options: Mapping[str, str], name: str) -> None:
        """Note a place that is missing, or that another sink writes to."""
        missing = missing_option(format_, options)
        if missing == "path":
            if "path" not in section.values:
                section.wrong("path", MISSING, f"{format_} writes files: name their folder")
        elif missing is not None:
            section.wrong(f"options.{missing}", MISSING, f"{format_} needs it")
        elif place := place_of(format_, options, name):
            if place in self.written:
                key, kind = ("options.view", "view") if format_ == "memory" else ("path", "folder")
                section.wrong(key, f"{self.written[place]} writes there too", f"give each sink a {kind} of its own")
            elif self.checkpoint and is_within(place, place_of("", {"path": self.checkpoint}, "")):
                section.wrong("path", "the checkpoint is there", "give the sink a folder of its own")
            self.written.setdefault(place, section.place)

    def _with_path(self, section: Section, path: str | None, options: dict[str, str]) -> dict[str, str]:
        if path is not None and "path" in options:
            section.wrong("options.path", "path is written twice", f"leave {section.at('path')} only")
        path = path or options.get("path")
        return options if path is None else {**options, "path": self._absolute(path)}

    def _absolute(self, path: str) -> str:
        """The path from the file's folder; one that names a file system (s3://...) is absolute already."""
        return path if re.match(r"\w[\w+.-]*:/", path) else os.path.normpath(self.path.parent / path)

    def _text_of(self, section: Section, file: str) -> str | None:
        try:
            return (self.path.parent / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            section.wrong("file", f"{file} can't be read: {reason}")
        return None

    def _import(self, section: Section, key: str, name: str) -> None:
        try:
            (import_from if self.imports else look_for)(self.path.parent, name, is_function=key == "python")
        except TrimtabError as error:
            section.wrong(key, getattr(error, "message", str(error)), getattr(error, "hint", ""))


def _has_python_sources() -> bool:
    """Whether a package is installed in which Spark looks for sources and sinks written in Python."""
    return any(each.name.startswith("pyspark_") for each in pkgutil.iter_modules())


def _partitions(section: Section) -> dict[str, Any]:
    """The partitions of a stream, as `Job.stream` takes them; without what isn't written."""
    is_number = isinstance(section.values.get("partitions"), int)
    partitions = section.whole("partitions", most=MOST_PARTITIONS) if is_number else section.texts("partitions")
    found = {"partition_by": section.text("partition_by"), "partitions": partitions or None}
    if (found["partition_by"] is None) != (found["partitions"] is None):
        lacking = next(key for key, value in found.items() if value is None)
        section.wrong(lacking, MISSING, "name the column, and list its values or say how many there are")
    return {key: value for key, value in found.items() if value is not None}


def _silence(section: Section) -> dict[str, Any]:
    """How time goes on without rows, and how far ahead it may be, as `Job.stream` takes it."""
    is_unlimited = section.values.get("max_ahead") == UNLIMITED
    max_ahead = section.text("max_ahead") if is_unlimited else section.length("max_ahead")
    found = {"idle_after": section.length("idle_after"), "max_ahead": max_ahead}
    return {key: None if value == UNLIMITED else value for key, value in found.items() if value is not None}


def _check_name(name: str, section: Section) -> None:
    if not _NAME.fullmatch(name):
        section.wrong("", "this can't be its name", "use letters, digits and _, and begin with a letter")


def _format(section: Section, needed: str = "") -> str | None:
    """The format; case doesn't matter in short names, but does in names of classes."""
    found = section.text("format", needed=needed)
    return found.lower() if found is not None and "." not in found else found


def _check_options(section: Section, format_: str, options: Mapping[str, str]) -> None:
    known = OWN_SINKS.get(format_, tuple(options))
    for name in options:
        if name not in known:
            place = name if name in section.values else f"options.{name}"
            hint = did_you_mean(name, known, otherwise=f"there is {', '.join(known)}")
            section.wrong(place, f"{format_} has no such option", hint)
    if format_ == "console" and not options.get("rows", "1").isdigit():
        section.wrong("options.rows", f"{options['rows']} is not a whole number")


def _trigger(settings: Section) -> tuple[str | None, bool, bool]:
    trigger = settings.length("trigger")
    available_now, close = settings.flag("available_now"), settings.flag("close")
    if available_now and "trigger" in settings.values:
        settings.wrong("trigger", "it is not used together with available_now", "leave one of them")
    if close and not available_now:
        settings.wrong("close", "only input that ends can be closed", "write available_now = true too")
    return trigger, available_now, close


def _distinct(streams: list[tuple[str, Section]]) -> None:
    places: dict[str, str] = {}
    for name, section in streams:
        if name.lower() in places:
            section.wrong("", f"{places[name.lower()]} has the same name", "case doesn't matter in SQL")
        places.setdefault(name.lower(), section.place)
