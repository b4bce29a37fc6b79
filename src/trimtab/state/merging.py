"""One merge of state runs: what a task is given, what it does, and how a commit takes up the result.

Merged files have the number of a batch that never comes, so that sweeping keeps them until a manifest names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.state.bundle import Bundle
from trimtab.state.checkpoint import segment_name
from trimtab.state.compaction import Merge, apply_merges, carry_out
from trimtab.state.files import Folder
from trimtab.state.manifest import QueryState, Run, SegmentFile
from trimtab.state.segment import segment_of, write_segment

NEVER = 999_999_999_999
"""The batch in the names of merged files."""


@dataclass(frozen=True, slots=True)
class Work:
    """One merge, with all that a task needs to do it."""

    merge: Merge
    folder: Folder
    segments: Mapping[str, SegmentFile]
    incarnation: str


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge that was done: the runs it made, and their file (None if no slot is left)."""

    merge: Merge
    runs: tuple[Run, ...]
    segment: SegmentFile | None


def run_merge(work: Work) -> Merged:
    """Do one merge; its file isn't part of the state until a manifest names it."""

    def opened(run: Run) -> Bundle:
        return segment_of(work.folder, work.segments[run.segment]).part(run.part)

    merge = work.merge
    pieces = carry_out(merge, opened)
    if not pieces:
        return Merged(merge, (), None)
    name = segment_name(NEVER, "m", work.incarnation)
    parts = {f"{merge.query}#{number}": bundle for number, (_, _, bundle) in enumerate(pieces)}
    file, sizes = write_segment(work.folder, name, parts)
    runs = tuple(
        Run(
            segment=name,
            part=part,
            sequence=merge.sequence,
            is_base=merge.to_base,
            first_group=first,
            end_group=end,
            slots=sizes[part].slots,
            keys=sizes[part].keys,
            size_bytes=sizes[part].size_bytes,
        )
        for part, (first, end, _) in zip(parts, pieces, strict=True)
    )
    return Merged(merge, runs, file)


def take_up(
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
