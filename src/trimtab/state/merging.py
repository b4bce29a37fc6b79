"""Merges of state runs: what a task is given, what it does, and how a commit includes the results.

Merged files have the number of a batch that never comes, so that sweeping keeps them until a manifest names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from trimtab.state.bundle import Bundle
from trimtab.state.checkpoint import segment_name
from trimtab.state.compaction import Merge, apply_merges, carry_out
from trimtab.state.files import Folder
from trimtab.state.manifest import QueryState, SegmentFile, StateRun
from trimtab.state.segment import open_run, write_segment
from trimtab.state.sweep import NEVER

AT_ONCE_BYTES = 64 << 20
"""How much the merges read, at most, that one task does together: a task each, and a file each that has to reach the
disk, took two seconds for the small merges of a hundred queries."""


@dataclass(frozen=True, slots=True)
class Work:
    """One merge, with all that a task needs to do it."""

    merge: Merge
    folder: Folder
    segments: Mapping[str, SegmentFile]
    incarnation: str
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge that was done: the runs it made, and their file (None if no slot is left)."""

    merge: Merge
    runs: tuple[StateRun, ...]
    segment: SegmentFile | None


def together(work: Sequence[Work], most_bytes: int = AT_ONCE_BYTES) -> list[Sequence[Work]]:
    """The merges in groups, each for one task and one file: as few as read at most so many bytes, or one merge."""
    groups: list[list[Work]] = []
    left = 0
    for each in work:
        size = sum(run.size_bytes for run in each.merge.runs)
        if not groups or size > left:
            groups.append([])
            left = most_bytes
        groups[-1].append(each)
        left -= size
    return list[Sequence[Work]](groups)


def run_merges(group: Sequence[Work]) -> list[Merged]:
    """Do merges of one stream, which write one file; it isn't part of the state until a manifest names it."""
    first, parts = group[0], dict[str, Bundle]()
    made: list[list[tuple[str, int, int]]] = []
    for work in group:
        made.append([])
        for begin, end, bundle in carry_out(work.merge, partial(open_run, work.folder, work.segments)):
            part = f"{work.merge.query}#{len(parts)}"
            parts[part] = bundle
            made[-1].append((part, begin, end))
    if not parts:
        return [Merged(work.merge, (), None) for work in group]
    file, sizes = write_segment(first.folder, segment_name(NEVER, "m", first.incarnation, first.epoch), parts)
    return [
        Merged(
            merge,
            tuple(
                StateRun(file.name, part, merge.sequence, merge.to_base, begin, end, *sizes[part])
                for part, begin, end in own
            ),
            file if own else None,
        )
        for merge, own in zip((work.merge for work in group), made, strict=True)
    ]


def include_merges(
    queries: Mapping[str, QueryState], merged: Sequence[Merged]
) -> tuple[dict[str, QueryState], list[SegmentFile]]:
    """The queries' runs after some merges, and the files that came with them."""
    after = dict(queries)
    files = []
    for name, query in queries.items():
        own = [each for each in merged if each.merge.query == name]
        if own:
            runs = apply_merges(query.runs, [(each.merge, each.runs) for each in own])
            after[name] = QueryState(fingerprint=query.fingerprint, runs=runs, sql=query.sql)
            files += [each.segment for each in own if each.segment is not None]
    return after, files
