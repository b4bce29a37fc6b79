"""Sweeping: delete old versions, files that no version names any more, and what crashes and repeated tasks left.

After each commit the driver knows which files to delete; the rest is found by looking into the folders, when a job
starts and now and then while it runs. The order makes it safe to die at any moment: manifests are deleted before the
files that only they name, so a manifest never names a file that was swept.

A job may be suspended in the middle, and wake up when another one has taken over. So it deletes nothing that a later
owner may need: it looks at files of earlier epochs only, whose owners can't commit any more (`manifest.reserve`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from trimtab.state.checkpoint import StreamFolders, epoch_of
from trimtab.state.files import Folder
from trimtab.state.manifest import batches, manifest_name, read, reserve

KEEP = 3  # versions: the newest, the one that the running batch started from, and one for programs that read it now
OLD_S = 3600.0  # a temporary file this old has no writer: no task writes a segment for an hour
NEVER = 999_999_999_999
"""The batch in the names of merged files: it never comes."""
_SEGMENT = re.compile(r"(\d{12})-.+\.segment")
_NUMBERED = re.compile(r"(\d{12})[-.].+")


def sweep(folders: StreamFolders, *, epoch: int, keep: int = KEEP) -> None:
    """Keep the newest `keep` versions of a stream and delete the rest, before the first batch of a job.

    From here on, owners with an earlier epoch than this job's can't commit. Files with names of other kinds are not
    ours, and stay. Raises StateError `state.lost-lock` if a later owner has taken over. Nothing is deleted if one of
    the versions to be kept can't be read: its StateError is raised.
    """
    assert keep >= 1, "the newest version has to stay"
    plans = folders.plans.names()  # before the versions: a plan that is listed belongs to one of these or to the next
    reserve(folders.manifests, epoch)
    known = batches(folders.manifests)
    named = {name for batch in known[-keep:] for name in read(folders.manifests, batch).segments}
    for batch in known[:-keep]:
        folders.manifests.delete(manifest_name(batch))
    if known[:-keep]:
        folders.manifests.sync()  # so that even after a power cut no manifest outlives its files
    _delete(folders.segments, lambda name, _: name not in named and epoch_of(name) < epoch, _SEGMENT)
    _delete(folders.outbox, lambda name, _: epoch_of(name) < epoch)  # outputs that no sink will take
    newest = known[-1] if known else -1
    for name in plans:  # the last batch's and the next one's stay; others were undone, or left by an earlier owner
        if (found := _NUMBERED.fullmatch(name)) and int(found[1]) not in (newest, newest + 1):
            folders.plans.delete(name)
    _delete_temporaries(folders)


def sweep_orphans(folders: StreamFolders, *, epoch: int, keep: int = KEEP) -> None:
    """Delete what repeated and speculative tasks of this job's committed batches have left, while it runs.

    No merge may be under way or wait for its commit: the files of merges don't tell when they are needed.
    """
    before = batches(folders.manifests)
    if not before:
        return
    candidates = [name for name in folders.segments.names() if _SEGMENT.fullmatch(name)]
    # Read after the files were listed: what a commit needs that comes after this has a higher number.
    named = {name for batch in batches(folders.manifests)[-keep:] for name in read(folders.manifests, batch).segments}

    def is_left(name: str, batch: int) -> bool:
        return epoch_of(name) == epoch and (batch <= before[-1] or batch == NEVER)

    for name in candidates:
        if name not in named and is_left(name, int(name[:12])):
            folders.segments.delete(name)
    _delete(folders.outbox, is_left)
    _delete_temporaries(folders)


def _delete(folder: Folder, is_left: Callable[[str, int], bool], kind: re.Pattern[str] = _NUMBERED) -> None:
    for name in folder.names():
        if (found := kind.fullmatch(name)) and is_left(name, int(found[1])):
            folder.delete(name)


def _delete_temporaries(folders: StreamFolders) -> None:
    for folder in (folders.manifests, folders.segments, folders.outbox, folders.plans):
        for name, written_s in folder.temporaries():
            if time.time() - written_s > OLD_S:
                folder.delete(name)
