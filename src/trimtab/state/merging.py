"""One merge of state runs: what a task is given, what it does, and how a commit includes the result.

Merged files have the number of a batch that never comes, so that sweeping keeps them until a manifest names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from trimtab.state.checkpoint import segment_name
from trimtab.state.compaction import Merge, apply_merges, carry_out
from trimtab.state.files import Folder
from trimtab.state.manifest import QueryState, SegmentFile, StateRun
from trimtab.state.segment import open_run, write_segment
from trimtab.state.sweep import NEVER


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


def run_merge(work: Work) -> Merged:
    """Do one merge; its file isn't part of the state until a manifest names it."""
    merge = work.merge
    pieces = carry_out(merge, partial(open_run, work.folder, work.segments))
    if not pieces:
        return Merged(merge, (), None)
    name = segment_name(NEVER, "m", work.incarnation, work.epoch)
    parts = {f"{merge.query}#{number}": bundle for number, (_, _, bundle) in enumerate(pieces)}
    file, sizes = write_segment(work.folder, name, parts)
    runs = tuple(
        StateRun(name, part, merge.sequence, merge.to_base, first, end, *sizes[part])
        for part, (first, end, _) in zip(parts, pieces, strict=True)
    )
    return Merged(merge, runs, file)


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
