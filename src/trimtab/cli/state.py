"""`trimtab state`: look into a checkpoint: its versions, their contents, and whether every file is intact.

Only `lower` changes anything: a watermark that a wrong clock has raised.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from trimtab.cli.texts import text_table
from trimtab.driver.lowering import lower_watermark
from trimtab.engine.keyed.memory import SNAPSHOTS
from trimtab.engine.match.ir.state_schema import INTS, NODES, ROWS, THREADS
from trimtab.engine.operator import ARRIVAL
from trimtab.engine.windows.grouped import LAST, START, WINDOWS
from trimtab.engine.windows.over_memory import FRAME, WAITING
from trimtab.errors import StateError
from trimtab.keyed_state import DEADLINE, KEY, KEYS, ROW, SLOT
from trimtab.state.bundle import State
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.inspect import at_version, find_keys, first_keys, group_sizes, key_columns, only, verify, versions
from trimtab.state.manifest import Manifest

SHOWN_KEYS = 20
HIDDEN = {KEY, SLOT, ARRIVAL, f"{ROW}{SLOT}", f"{ROW}{ARRIVAL}"}
TIMES = {(WINDOWS, START), (WINDOWS, LAST)}  # besides columns whose names end in _us
THREAD = {f"{INTS}{place}": name for place, name in enumerate(("position", "first_row", "last_row", "path"))}
TITLES = {
    KEYS: "what is known about the key",
    ROWS: "rows kept, numbered",
    THREADS: "partial matches, best first (registers as trimtab explain lists them)",
    NODES: "paths of the partial matches",
    WINDOWS: "open windows",
    FRAME: "rows in the frame",
    WAITING: "rows that wait for the watermark",
    SNAPSHOTS: "the operator's own state",
}


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand and its own ones."""
    parser = commands.add_parser(
        "state",
        help="look into the checkpoint of a job",
        description="Look into the checkpoint of a job, whether it runs or not. Only `lower` changes anything.",
    )
    actions = parser.add_subparsers(
        title="what to do", metavar="ls | show | verify | lower", required=True, parser_class=_AnyOrder
    )

    listing = actions.add_parser("ls", help="list versions, and sizes by query", description="List the versions of "
        "the state that are kept, and what each query keeps in the newest one.")  # fmt: skip
    _add_checkpoint(listing)
    listing.add_argument("--groups", action="store_true", help="sizes by key group as well")
    listing.set_defaults(run=list_versions)

    show = actions.add_parser("show", help="print the state of a key", description="Print the live state of a key; "
        "without one, list the first keys.")  # fmt: skip
    _add_checkpoint(show)
    show.add_argument("--query", required=True, metavar="QUERY", help="the query whose state it is")
    show.add_argument("key", nargs="*", metavar="COLUMN=VALUE", help="each column of PARTITION BY, and its value")
    show.set_defaults(run=show_key)

    check = actions.add_parser("verify", help="check every checksum", description="Read every file of all versions "
        "and compare it with its checksum. Problems are listed, and make the exit status 1.")  # fmt: skip
    check.add_argument("checkpoint", help="the job's checkpoint: a path or a URI")
    check.set_defaults(run=verify_all)

    lower = actions.add_parser("lower", help="lower a watermark that a wrong clock has raised", description="Lower the "
        "watermark of a stream that a row with a wrong time has raised, so that later rows aren't late any more. The "
        "job must not run.")  # fmt: skip
    lower.add_argument("checkpoint", help="the job's checkpoint: a path or a URI")
    lower.add_argument("--stream", help="the stream, if there are several")
    lower.add_argument("--to", required=True, metavar="TIME", help="a time in UTC, such as 2026-01-31T12:00:00")
    lower.set_defaults(run=lower_stream)


def list_versions(options: argparse.Namespace) -> int:
    """Print versions and sizes."""
    checkpoint = Checkpoint.existing(options.checkpoint)
    print(f"job {checkpoint.job} with {checkpoint.key_groups:,} key groups")
    for stream in _streams(checkpoint, options.stream):
        print(f"\nSTREAM {stream}")
        kept = versions(checkpoint, stream)
        moved = [sum(map(operator.ne, one.placement, next_.placement)) for one, next_ in itertools.pairwise(kept)]
        columns = {
            "batch": [each.batch for each in kept],
            "written at": [_time(int(each.written_at_s) * 1_000_000) for each in kept],
            "watermark": [_time(each.watermark_us) for each in kept],
            "engines": [each.engines for each in kept],
            "moved groups": pa.array([None, *moved][: len(kept)], pa.int64()),  # since the version before
            "events": [each.events for each in kept],
            "late": [each.late for each in kept],
            "quarantined": [each.quarantined for each in kept],
            "files": [len(each.segments) for each in kept],
            "bytes": [sum(file.size_bytes for file in each.segments.values()) for each in kept],
        }
        print(text_table(pa.table(columns), limit=len(kept)))
        if kept:
            manifest, sizes = at_version(
                checkpoint, stream, options.batch, lambda each: _sizes(checkpoint, each, options.groups)
            )
            print(f"\nAT BATCH {manifest.batch} (with what merges have yet to drop)")
            print("\n\n".join(text_table(table, limit=table.num_rows) for table in sizes))
    return 0


def show_key(options: argparse.Namespace) -> int:
    """Print the state of a key, or the first keys."""
    checkpoint = Checkpoint.existing(options.checkpoint)
    wanted = dict(_pairs(options.key))
    stream = _stream_of(checkpoint, options)
    folders = checkpoint.stream(stream)
    if not wanted:
        manifest, (keys, count) = at_version(
            checkpoint, stream, options.batch, lambda each: first_keys(folders, each, options.query, SHOWN_KEYS)
        )
        print(f"query {options.query} at batch {manifest.batch}: {count:,} key{'' if count == 1 else 's'}")
        if keys is not None:
            print(text_table(_readable(KEYS, keys.select([*key_columns(keys.schema), DEADLINE])), SHOWN_KEYS))
        return 0
    manifest, state = at_version(
        checkpoint, stream, options.batch, lambda each: find_keys(folders, each, options.query, wanted)
    )
    if not state:
        message = f"query {options.query} keeps nothing of {' '.join(options.key)} at batch {manifest.batch}"
        raise StateError("state.key", message, "the key never occurred, or all its matches and windows are complete")
    print(f"query {options.query} at batch {manifest.batch}")
    found = state[KEYS].num_rows
    for row in range(min(found, SHOWN_KEYS)):
        print(f"\n{_text(only(state, [row]))}")
    if found > SHOWN_KEYS:
        print(f"\nthe first {SHOWN_KEYS} of {found:,} keys; name more of its columns to see a certain one")
    return 0


def verify_all(options: argparse.Namespace) -> int:
    """Check every file; problems are printed, one to a line."""
    found = verify(Checkpoint.existing(options.checkpoint))
    for problem in found.problems:
        print(problem)
    good = f"{found.files:,} files, {found.size_bytes:,} bytes"
    if found.problems:
        print(f"{len(found.problems)} damaged or missing; {good} are good")
        return 1
    print(f"{good}: all good")
    return 0


class _AnyOrder(argparse.ArgumentParser):
    """A parser that takes `CHECKPOINT --query QUERY KEY...`: options between positional arguments."""

    _inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._inside:
            return super().parse_known_args(args, namespace)
        self._inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._inside = False


def _add_checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="the job's checkpoint: a path or a URI")
    parser.add_argument("--stream", metavar="STREAM", help="only this stream")
    parser.add_argument("--batch", type=int, metavar="N", help="the version of this batch instead of the newest one")


def lower_stream(options: argparse.Namespace) -> int:
    """Lower a watermark."""
    checkpoint = Checkpoint.existing(options.checkpoint)
    streams = list(_streams(checkpoint, options.stream))
    if len(streams) != 1:
        raise StateError("state.stream", "the job has several streams", f"add --stream: {', '.join(streams)}")
    try:
        to = datetime.datetime.fromisoformat(options.to)
    except ValueError as error:
        raise StateError("state.watermark", f"{options.to} is not a time", "write 2026-01-31T12:00:00") from error
    to = to if to.tzinfo is not None else to.replace(tzinfo=datetime.UTC)
    before, after = lower_watermark(checkpoint, streams[0], round(to.timestamp() * 1e6))
    print(f"stream {streams[0]}: watermark {_time(before.watermark_us)} lowered to {_time(after.watermark_us)}")
    return 0


def _streams(checkpoint: Checkpoint, chosen: str | None) -> list[str]:
    return checkpoint.streams() if chosen is None else [chosen]


def _stream_of(checkpoint: Checkpoint, options: argparse.Namespace) -> str:
    """The stream that a query reads: a job's queries have different names, so there is only one."""
    known: list[str] = []
    for stream in _streams(checkpoint, options.stream):
        if versions(checkpoint, stream):
            _, queries = at_version(checkpoint, stream, options.batch, lambda each: list(each.queries))
            if options.query in queries:
                return stream
            known += queries
    hint = f"there are {', '.join(known)}" if known else "no batch is committed yet"
    raise StateError("state.query", f"the checkpoint has no state of a query {options.query}", hint)


def _sizes(checkpoint: Checkpoint, manifest: Manifest, by_group: bool) -> list[pa.Table]:
    """Tables of what each query keeps."""
    queries = manifest.queries
    totals = {
        "query": list(queries),
        "runs": [len(query.runs) for query in queries.values()],
        "slots": [sum(run.slots for run in query.runs) for query in queries.values()],
        "keys": [sum(run.keys for run in query.runs) for query in queries.values()],
        "bytes": [sum(run.size_bytes for run in query.runs) for query in queries.values()],
    }
    tables = [pa.table(totals)]
    if by_group and queries:
        folders = checkpoint.stream(manifest.stream)
        tables.append(pa.concat_tables([group_sizes(folders, manifest, name) for name in queries]))
    return tables


def _pairs(texts: list[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        column, equals, value = text.partition("=")
        if not (column and equals):
            raise StateError("state.key", f"{text} is not a column with a value", "write for example symbol=KEEL")
        yield column, value


def _text(state: State) -> str:
    """The state of one key as text: its columns, its deadline, and each table."""
    keys = state[KEYS]
    own = key_columns(keys.schema)
    row = keys.slice(0, 1).to_pylist()[0]
    parts = [" ".join(f"{name}={row[name]}" for name in own) or "the only key"]
    if DEADLINE in row:
        deadline = _time(row[DEADLINE])
        parts[0] += "\nwaits for its next row" if deadline is None else f"\nlooked at again at {deadline}"
    for name, table in state.items():
        shown = _readable(name, table.drop_columns([*own, DEADLINE]) if name == KEYS else table)
        if shown.num_columns and shown.num_rows:
            parts.append(f"{name.upper()}: {TITLES.get(name, 'as the operator keeps it')}\n{text_table(shown)}")
    return "\n\n".join(parts)


def _readable(name: str, table: pa.Table) -> pa.Table:
    """A table of the state without the columns that only trimtab needs, with times as times and readable names."""
    columns: dict[str, Any] = {"row": list(range(table.num_rows))} if name == ROWS else {}
    for each, column in zip(table.column_names, table.columns, strict=True):
        if each in HIDDEN:
            continue
        shown = each.removeprefix(ROW).removeprefix("__")
        if name == THREADS:
            shown = THREAD.get(each, each)
        if pa.types.is_int64(column.type) and (each.endswith("_us") or (name, each) in TIMES):
            column, shown = column.cast(pa.timestamp("us")), shown.removesuffix("_us")
        columns[shown] = column
    return pa.table(columns)


def _time(microseconds: int | None) -> str | None:
    """A time in UTC; null where there is none."""
    if microseconds is None:
        return None
    time = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    text = time.isoformat(sep=" ", timespec="microseconds")
    return text.rstrip("0").rstrip(".") if "." in text else text
