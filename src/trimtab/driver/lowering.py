"""Lowers the watermark of a stream that a row with a wrong time has raised, while no job runs.

Builds that had no limit on how far ahead a row may be took such times, and every later row was late. The lowered
watermark stands in a version of its own: no batch, no rows, the same state.
"""

from __future__ import annotations

from dataclasses import replace

from trimtab.driver.batch_plan import read_plan
from trimtab.errors import StateError
from trimtab.state import manifest as manifests
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.lock import CheckpointLock
from trimtab.state.manifest import Manifest


def lower_watermark(checkpoint: Checkpoint, stream: str, to_us: int) -> tuple[Manifest, Manifest]:
    """Lower a stream's watermark; returns the versions before and after.

    Raises StateError: `state.locked` while a job runs, `state.watermark` if there is nothing to lower.
    """
    with CheckpointLock(checkpoint.folder) as lock:
        folders = checkpoint.stream(stream)
        manifests.reserve(folders.manifests, lock.epoch)
        before = manifests.newest(folders.manifests, job=checkpoint.job, stream=stream)
        if before is None or before.watermark_us is None or before.watermark_us <= to_us:
            raise StateError("state.watermark", f"the watermark of stream {stream} is no later than that", "")
        if read_plan(folders.plans, before.batch + 1, before.incarnation) is not None:
            message = f"a batch of stream {stream} was begun and isn't finished"
            raise StateError(
                "state.watermark", message, "start the job once, so that the batch is finished, then stop it"
            )
        # Time-outs may be reported again from there on, and the newest times are those of rows to come.
        after = replace(
            before, batch=before.batch + 1, watermark_us=to_us, previous_watermark_us=to_us, newest_us={}, next_due_us=0
        )
        manifests.write(folders.manifests, after, epoch=lock.epoch)
    return before, after
