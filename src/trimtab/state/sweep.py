"""Sweeping when a job starts: delete old versions, files that no version names any more, and what crashes left.

While the job runs, its driver knows after each commit which files to delete. The order makes it safe to die at any
moment: manifests are deleted before the files that only they name, so a manifest never names a file that was swept.
"""

from __future__ import annotations

import re
import time

from trimtab.state.checkpoint import StreamFolders
from trimtab.state.manifest import batches, manifest_name, read

KEEP = 3  # versions: the newest, the one that the running batch started from, and one for programs that read it now
OLD_S = 3600.0  # a temporary file this old has no writer: no task writes a segment for an hour
_SEGMENT = re.compile(r"\d{12}-.+\.segment")


def sweep(folders: StreamFolders, *, keep: int = KEEP) -> None:
    """Keep the newest `keep` versions of a stream and delete the rest, before its first batch and under the job's lock.

    Files with names of other kinds are not ours, and stay. Nothing is deleted if one of the versions to be kept can't
    be read: its StateError is raised.
    """
    assert keep >= 1, "the newest version has to stay"
    known = batches(folders.manifests)
    named = {name for batch in known[-keep:] for name in read(folders.manifests, batch).segments}
    for batch in known[:-keep]:
        folders.manifests.delete(manifest_name(batch))
    if known[:-keep]:
        folders.manifests.sync()  # so that even after a power cut no manifest outlives its files
    for name in folders.segments.names():
        if _SEGMENT.fullmatch(name) and name not in named:
            folders.segments.delete(name)
    for name in folders.outbox.names():  # outputs that no sink will take
        folders.outbox.delete(name)
    for folder in (folders.manifests, folders.segments):
        for name, written_s in folder.temporaries():
            if time.time() - written_s > OLD_S:
                folder.delete(name)
