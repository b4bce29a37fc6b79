"""Sweeping: delete old versions, files that no version names any more, and what crashes left.

The order makes it safe to die at any moment: manifests are deleted before the files that only they name, so a manifest
never names a file that was swept. What a dead sweeper left is found by a later one, or at the next start.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from trimtab.errors import StateError
from trimtab.state.checkpoint import StreamFolders
from trimtab.state.files import Folder
from trimtab.state.manifest import Manifest, batches, manifest_name, read

KEEP = 3  # versions: the newest, the one that the running batch started from, and one for programs that read it now
OLD_S = 3600.0  # a temporary file this old has no writer: no task writes a segment for an hour
_SEGMENT = re.compile(r"(\d{12})-.+\.segment")


@dataclass(frozen=True, slots=True)
class Swept:
    """How many files were deleted."""

    manifests: int
    segments: int
    temporaries: int


def what_to_delete(
    names: Iterable[str],
    manifests: Sequence[Manifest],
    newest_batch: int,
    *,
    dropped: Iterable[Manifest] = (),
    at_start: bool = False,
) -> list[str]:
    """Which of these segment files to delete: those that none of the manifests to be kept names.

    Files of batches after `newest_batch`, the last committed one, stay while a job runs, because they may belong to the
    running batch. Only those that a `dropped` manifest names are deleted: they were committed once and aren't used any
    more. When a job starts, all of them were left by a crash and are deleted. Files with other names are not ours.

    >>> what_to_delete(["000000000007-e0-a.segment", "000000000008-e0-b.segment", "notes.txt"], [], 7)
    ['000000000007-e0-a.segment']
    """
    named = {name for manifest in manifests for name in manifest.segments}
    once_named = {name for manifest in dropped for name in manifest.segments}
    found = ((name, _SEGMENT.fullmatch(name)) for name in names if name not in named)
    return [
        name for name, match in found if match and (at_start or int(match[1]) <= newest_batch or name in once_named)
    ]


def sweep(folders: StreamFolders, *, keep: int = KEEP, at_start: bool = False, now_s: float | None = None) -> Swept:
    """Keep the newest `keep` versions of a stream and delete the rest; the job that runs it holds the lock.

    Nothing is deleted if one of the versions to be kept can't be read: its StateError is raised.
    """
    assert keep >= 1, "the newest version has to stay"
    known = batches(folders.manifests)
    kept = [read(folders.manifests, batch) for batch in known[-keep:]]
    dropped: list[Manifest] = []
    for batch in known[:-keep]:
        with suppress(StateError):  # a damaged one names no files, and is deleted
            dropped.append(read(folders.manifests, batch))
    for batch in known[:-keep]:
        folders.manifests.delete(manifest_name(batch))
    if known[:-keep]:
        folders.manifests.sync()  # so that even after a power cut no manifest outlives its files
    newest_batch = known[-1] if known else -1
    unnamed = what_to_delete(folders.segments.names(), kept, newest_batch, dropped=dropped, at_start=at_start)
    for name in unnamed:
        folders.segments.delete(name)
    now_s = time.time() if now_s is None else now_s
    temporaries = sum(_sweep_temporaries(folder, now_s) for folder in (folders.manifests, folders.segments))
    return Swept(len(known[:-keep]), len(unnamed), temporaries)


def _sweep_temporaries(folder: Folder, now_s: float) -> int:
    old = [name for name, written_s in folder.temporaries() if now_s - written_s > OLD_S]
    for name in old:
        folder.delete(name)
    return len(old)
