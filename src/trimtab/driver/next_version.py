"""Makes the manifest of a batch from the one before it and from the engines' reports. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.driver.batch_plan import BatchPlan
from trimtab.engine.columns.watermark import StreamTime
from trimtab.state.manifest import Manifest, QueryState, StateRun
from trimtab.state.merging import Merged, include_merges
from trimtab.worker.orders import EngineReport, Head


@dataclass(frozen=True, slots=True)
class Identity:
    """Which batches these are: those of a checkpoint's job, a stream, and its incarnation."""

    job: str
    stream: str
    incarnation: str
    key_groups: int


def runs_before(known: Manifest | None, plan: BatchPlan) -> dict[str, tuple[StateRun, ...]]:
    """The runs of each query that keeps its state: one that the last version has, unchanged."""
    queries, states = plan.setup.queries, {} if known is None else known.queries
    return {
        name: state.runs
        for name, state in states.items()
        if name in queries and queries[name].fingerprint == state.fingerprint
    }


def next_version(
    identity: Identity,
    known: Manifest | None,
    plan: BatchPlan,
    reports: Sequence[EngineReport],
    head: Head,
    merged: Sequence[Merged] = (),
) -> Manifest:
    """The version after a batch; `known` is the one before it, `merged` the merges that it includes."""
    kept = runs_before(known, plan)
    queries = {}
    for name, query in plan.setup.queries.items():
        new = _new_runs(name, plan.number, identity.key_groups, reports)
        runs = () if plan.closing else (*new, *kept.get(name, ()))
        queries[name] = QueryState(fingerprint=query.fingerprint, runs=runs, sql=query.sql)
    merged = [each for each in merged if each.merge.query in kept and not plan.closing]  # of others, nothing is left
    queries, files = include_merges(queries, merged)
    segments = {} if known is None else dict(known.segments)
    segments |= {report.segment.name: report.segment for report in reports if report.segment is not None}
    segments |= {file.name: file for file in files}
    named = {run.segment for query in queries.values() for run in query.runs}
    matches = {
        name: (known.matches.get(name, 0) if known is not None and name in kept else 0) + rows_of(name, reports)
        for name in queries
    }
    time = plan.time.after(head.newest_us)
    spark_batch, positions, source = _read_up_to(known, plan)
    return Manifest(
        job=identity.job,
        stream=identity.stream,
        incarnation=identity.incarnation,
        batch=plan.number,
        spark_batch=spark_batch,
        positions=positions,
        source=source,
        key_groups=identity.key_groups,
        engines=plan.placement.engines,
        placement=plan.placement.owner,
        watermark_us=time.watermark_us,
        newest_us=time.newest_us,
        next_due_us=_next_due_us(known, time, reports),
        previous_watermark_us=time.watermark_us,
        queries=queries,
        segments={name: file for name, file in segments.items() if name in named},
        events=(known.events if known else 0) + head.events,
        late=(known.late if known else 0) + sum(report.late for report in reports),
        quarantined=(known.quarantined if known else 0) + sum(report.quarantined for report in reports),
        matches=matches,
        closed=plan.closing,
        written_at_s=plan.clock_s,
        spread=tuple((each.slot, each.engines) for each in plan.placement.spread),
    )


def _read_up_to(known: Manifest | None, plan: BatchPlan) -> tuple[int | None, dict[str, int], str]:
    """Spark's last batch, or the positions in trimtab's own source and which one that is: of the last one who read."""
    if not plan.has_rows:
        return (None, {}, "") if known is None else (known.spark_batch, dict(known.positions), known.source)
    if not plan.ranges:
        return plan.spark_batch, {}, ""
    # Those of partitions that the source no longer names stay: it may name them again, and nothing is read twice.
    before = known.positions if known is not None and known.is_of(plan.setup.source) else {}
    return None, {**before, **{each.partition: each.end for each in plan.ranges}}, plan.setup.source


def _next_due_us(known: Manifest | None, time: StreamTime, reports: Sequence[EngineReport]) -> int | None:
    found = [each.next_due_us for each in reports]
    if known is not None and time.watermark_us is None:
        found.append(known.next_due_us)  # engines without rows didn't look into their state
    return min((each for each in found if each is not None), default=None)


def rows_of(name: str, reports: Sequence[EngineReport]) -> int:
    """How many rows a query returned in a batch."""
    return sum(report.outputs[name].rows for report in reports if name in report.outputs)


def _new_runs(query: str, batch: int, key_groups: int, reports: Sequence[EngineReport]) -> list[StateRun]:
    """The recent runs that a batch adds: each may have slots of any group."""
    return [
        StateRun(report.segment.name, query, batch, False, 0, key_groups, *report.parts[query])
        for report in reports
        if report.segment is not None and query in report.parts
    ]
