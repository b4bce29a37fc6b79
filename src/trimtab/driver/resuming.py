"""Whether a job can go on from its checkpoint. Nothing here needs Spark, so it can be checked before Spark starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping

from trimtab.driver.batch_plan import BatchPlan, read_plan
from trimtab.errors import JobError
from trimtab.language.compiled import Query
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.manifest import Manifest, QueryState, manifest_name, newest

SIGNED = "signed-1:"
"""The prefix of fingerprints; a new way of making them gets another number, and must still understand older ones."""


def last_versions(checkpoint: Checkpoint) -> dict[str, Manifest]:
    """The last committed version of each stream that has one.

    Raises StateError as `manifest.read` does.
    """
    found = {}
    for name in checkpoint.streams():
        folder = checkpoint.stream(name).manifests
        known = newest(folder, job=checkpoint.job, stream=name) if folder.exists() else None
        if known is not None:
            found[name] = known
    return found


def begun_batches(checkpoint: Checkpoint, versions: Mapping[str, Manifest]) -> dict[str, BatchPlan]:
    """The plan of each stream whose next batch was begun before the job last ended; such batches are finished first.

    Raises StateError as `read_plan` does.
    """
    found: dict[str, BatchPlan] = {}
    for name in checkpoint.streams():
        folders = checkpoint.stream(name)
        number = versions[name].batch + 1 if name in versions else 0
        # Asking for the incarnation makes one if there is none, and this must change nothing.
        if folders.plans.exists(manifest_name(number)):
            plan = read_plan(folders.plans, number, folders.incarnation())
            found |= {} if plan is None else {name: plan}
    return found


def states(
    versions: Mapping[str, Manifest], begun: Mapping[str, BatchPlan], queries: Collection[str]
) -> Iterator[tuple[str, str, QueryState]]:
    """Stream, name and state of each of these queries in the checkpoint, once begun batches are finished."""
    known = {stream: manifest.queries for stream, manifest in versions.items()}
    for stream, plan in begun.items():
        known[stream] = {
            name: QueryState(query.fingerprint, (), query.sql) for name, query in plan.setup.queries.items()
        }
    for stream, of_stream in known.items():
        for name, state in of_stream.items():
            if name in queries:
                yield stream, name, state


def fingerprint(query: Query) -> str:
    """A hash of a query's signature; state with another fingerprint doesn't fit the query."""
    text = json.dumps(query.signature, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return SIGNED + hashlib.sha256(text.encode()).hexdigest()


def is_signed(state: QueryState) -> bool:
    """Whether the state's fingerprint is one that later builds understand."""
    return state.fingerprint.startswith(SIGNED)


def changed_query(name: str, state: QueryState, sql: str) -> JobError:
    """The error for a query that differs from the one in the checkpoint, or can't be compared with it."""
    forget = f"forget its state: query({name!r}, sql, reset=True)"
    if not is_signed(state):
        return JobError(
            "job.unsigned-query",
            f"the state of query {name} was written before queries were signed, so trimtab can't check that it fits",
            f"start with a fresh checkpoint, or forget the state: query({name!r}, sql, reset=True)",
        )
    if state.sql.strip() == sql.strip():
        return JobError(
            "job.changed-query",
            f"query {name} has the text that it had, but the columns of its stream have other types, or trimtab "
            "computes a function of it otherwise than before",
            f"give the columns the types that they had (a TIMESTAMP of Spark has a zone), or {forget}",
        )
    before = "\n".join(f"    {line}" for line in state.sql.strip().splitlines())
    return JobError(
        "job.changed-query",
        f"query {name} is not the one that the checkpoint has the state of:\n{before}",
        f"change it back, name it otherwise, or {forget}",
    )


def open_streams(streams: Collection[str], versions: Mapping[str, Manifest], *, close: bool) -> list[str]:
    """The streams that aren't closed. Some may be closed and others not, if the job ended while it closed them.

    Raises JobError `job.closed` if all are closed, or if some are and this start doesn't close the others.
    """
    closed = [name for name in streams if name in versions and versions[name].closed]
    if closed and (not close or len(closed) == len(streams)):
        message = f"the input of stream {', '.join(closed)} was closed and can't be reopened"
        hint = "start with a fresh checkpoint, or without close=True the next time"
        if len(closed) < len(streams):
            hint = "the job ended while it closed its streams: start it with close=True to close the others"
        raise JobError("job.closed", message, hint)
    return [name for name in streams if name not in closed]
