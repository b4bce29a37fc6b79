"""Read a checkpoint without changing it: versions, sizes, the state of a key, and whether all files are intact.

Nothing here takes the lock or writes. A job may run at the same time: if a version is swept while it is read, the
newest one is read instead.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.errors import StateError
from trimtab.keyed_state import DEADLINE, GROUP_SHIFT, KEY, KEYS, PATTERN_COLUMNS, SLOT
from trimtab.state.bundle import Bundle, State
from trimtab.state.checkpoint import Checkpoint, StreamFolders
from trimtab.state.files import Folder
from trimtab.state.local_copies import check_content
from trimtab.state.manifest import Manifest, SegmentFile, StateRun, batches, manifest_name, read
from trimtab.state.runs import Reader
from trimtab.state.segment import open_run, verify_segment

_ATTEMPTS = 5  # how often a version may be swept while it is read
_GONE = ("state.missing", "state.gone")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read, and what is wrong with it."""

    files: int
    size_bytes: int
    problems: tuple[str, ...]


def folders_of(checkpoint: Checkpoint, stream: str) -> StreamFolders:
    """The folders of a stream that has state. Raises StateError `state.version` for others."""
    if stream not in (known := checkpoint.streams()):
        message = f"the checkpoint {checkpoint.folder.shown} has no stream {stream}"
        raise StateError("state.version", message, f"it has {', '.join(known)}" if known else "it has none yet")
    return checkpoint.stream(stream)


def versions(checkpoint: Checkpoint, stream: str) -> list[Manifest]:
    """The versions of a stream's state that are kept, oldest first."""
    folder = folders_of(checkpoint, stream).manifests
    found: list[Manifest] = []
    for batch in batches(folder):
        try:
            found.append(read(folder, batch, job=checkpoint.job, stream=stream))
        except StateError as error:
            if error.code != "state.missing":  # else it was swept since
                raise
    return found


def at_version(
    checkpoint: Checkpoint, stream: str, batch: int | None, look: Callable[[Manifest], Answer]
) -> tuple[Manifest, Answer]:
    """Call `look` on one version of a stream's state, the newest by default; return the version and the result.

    Raises StateError `state.version` if there is none.
    """
    folder = folders_of(checkpoint, stream).manifests
    for attempt in range(_ATTEMPTS):
        known = batches(folder)
        wanted = known[-1] if known and batch is None else batch
        if wanted not in known or wanted is None:
            kept = f"there are {', '.join(map(str, known))}" if known else "none is committed yet"
            what = "a version" if wanted is None else f"a version of batch {wanted}"
            raise StateError("state.version", f"stream {stream} has no {what}: {kept}", "see trimtab state ls")
        try:
            manifest = read(folder, wanted, job=checkpoint.job, stream=stream)
            return manifest, look(manifest)
        except StateError as error:
            # A file that is missing although its version is still there is damage, not sweeping.
            if error.code not in _GONE or wanted in batches(folder) or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def group_sizes(folders: StreamFolders, manifest: Manifest, query: str) -> pa.Table:
    """What a query keeps by key group: its live slots, and its share of the files' bytes; without empty groups.

    Slots that were freed, or that a newer run has, are not counted; their bytes are, until a merge drops them.
    """
    runs = _bundles(folders, manifest, query)
    owned = np.ones(manifest.key_groups, np.bool_)
    live = Reader(runs, manifest.key_groups).slots(owned)
    slots = np.bincount(live >> GROUP_SHIFT, minlength=manifest.key_groups)
    shares = np.zeros(manifest.key_groups)
    for run, bundle in runs:
        of_groups = np.bincount(bundle.slots >> GROUP_SHIFT, minlength=manifest.key_groups)
        shares += of_groups * (run.size_bytes / max(1, len(bundle.slots)))
    kept = np.flatnonzero((slots > 0) | (shares > 0))
    sizes = {"live keys": slots[kept], "bytes": shares[kept].round().astype(np.int64)}
    return pa.table(
        {"query": [query] * len(kept), "group": kept, "engine": np.array(manifest.placement)[kept], **sizes}
    )


def first_keys(folders: StreamFolders, manifest: Manifest, query: str, limit: int) -> tuple[pa.Table | None, int]:
    """The keys of the first live slots, None if there are none, and how many live slots there are."""
    reader = Reader(_bundles(folders, manifest, query), manifest.key_groups)
    slots = reader.slots(np.ones(manifest.key_groups, np.bool_))
    return reader.load(slots[:limit]).get(KEYS), len(slots)


def find_keys(folders: StreamFolders, manifest: Manifest, query: str, wanted: Mapping[str, str]) -> State:
    """The live state of all keys whose columns have these values, given as text; an empty mapping if there are none.

    Raises StateError `state.key` for a column that isn't a key column or a value that isn't of its type.
    """
    runs = _bundles(folders, manifest, query)
    # Every run that has the key gives its slot; the reader then knows which run is the newest, and if the slot is live.
    keys = [bundle.tables[KEYS] for _, bundle in runs if bundle.keys]
    candidates = [table.filter(_like(table, wanted)).column(SLOT).to_numpy() for table in keys]
    slots = np.unique(np.concatenate(candidates)) if candidates else np.empty(0, np.int64)
    state = Reader(runs, manifest.key_groups).load(slots.astype(np.int64))
    if not state:
        return {}
    mask = _like(state[KEYS], wanted)
    return only(state, np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist())


def only(state: State, rows: Sequence[int]) -> State:
    """The state of some of its keys only, given by their rows in `keys`."""
    kept = pa.array(rows, pa.int64())
    if not len(kept):
        return {}
    tables: dict[str, pa.Table] = {KEYS: state[KEYS].take(kept)}
    for name, table in state.items():
        if name != KEYS:
            place = pc.index_in(table.column(KEY), kept)
            at = table.schema.get_field_index(KEY)
            tables[name] = table.set_column(at, KEY, place.cast(pa.int64())).filter(place.is_valid())
    return tables


def key_columns(keys: pa.Schema) -> list[str]:
    """The partition columns of a query's table `keys`."""
    names = keys.names[: keys.names.index(DEADLINE)] if DEADLINE in keys.names else keys.names
    if tuple(names[-len(PATTERN_COLUMNS) :]) == PATTERN_COLUMNS:
        names = names[: -len(PATTERN_COLUMNS)]
    return [name for name in names if name != SLOT]


def verify(checkpoint: Checkpoint) -> Verified:
    """Read every file of all versions and compare it with its checksum."""
    files, size_bytes, problems = 1, 0, []  # job.json was read when the checkpoint was opened
    for stream in checkpoint.streams():
        folders = checkpoint.stream(stream)
        named: dict[SegmentFile, list[int]] = {}
        for batch in batches(folders.manifests) if folders.manifests.exists() else []:
            try:
                manifest = read(folders.manifests, batch, job=checkpoint.job, stream=stream)
            except StateError as error:
                if error.code != "state.missing":  # else it was swept since
                    problems.append(error.message)
                continue
            files += 1
            size_bytes += len(manifest.to_bytes())
            for file in manifest.segments.values():
                named.setdefault(file, []).append(batch)
        for file, users in named.items():
            try:
                _verify(folders.segments, file)
            except StateError as error:
                if error.code in _GONE and not any(folders.manifests.exists(manifest_name(batch)) for batch in users):
                    continue
                problems.append(f"{error.message} (named by batch {users[-1]} of stream {stream})")
                continue
            files += 1
            size_bytes += file.size_bytes
    return Verified(files, size_bytes, tuple(problems))


def _verify(folder: Folder, file: SegmentFile) -> None:
    if folder.is_local:
        verify_segment(folder.path_of(file.name), file)
        return
    with tempfile.TemporaryDirectory(prefix="trimtab-verify-") as place:  # not from the cache, whose copy may be intact
        path = os.path.join(place, "segment")
        folder.fetch(file.name, path)
        check_content(path, file, folder.shown_path(file.name))


def _bundles(folders: StreamFolders, manifest: Manifest, query: str) -> list[tuple[StateRun, Bundle]]:
    if query not in manifest.queries:
        message = f"stream {manifest.stream} has no query {query} at batch {manifest.batch}"
        raise StateError("state.query", message, f"it has {', '.join(manifest.queries) or 'none'}")
    return [(run, open_run(folders.segments, manifest.segments, run)) for run in manifest.queries[query].runs]


def _like(keys: pa.Table, wanted: Mapping[str, str]) -> pa.Array:
    """Which rows have these values."""
    known = key_columns(keys.schema)
    mask = pa.array(np.ones(keys.num_rows, np.bool_))
    for name, text in wanted.items():
        # Case doesn't matter, as in Spark.
        column = next((each for each in known if each.lower() == name.lower()), None)
        if column is None:
            hint = f"its key is {', '.join(known)}" if known else "it has no PARTITION BY: leave the key out"
            raise StateError("state.key", f"{name} is not a key column of the query", hint)
        values = keys.column(column)
        equal = pc.fill_null(pc.equal(values, _parsed(text, column, values.type)), False)
        mask = pc.and_(mask, equal.combine_chunks() if isinstance(equal, pa.ChunkedArray) else equal)
    return mask


def _parsed(text: str, column: str, kind: pa.DataType) -> pa.Scalar:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return pa.scalar(text).cast(plain)
    except (pa.ArrowException, ValueError) as error:
        raise StateError("state.key", f"{text!r} is not a value of column {column}, which is {plain}") from error
