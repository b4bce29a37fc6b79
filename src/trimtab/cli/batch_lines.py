"""A running job as plain lines, for logs: one for each batch, and a summary at the end."""

from __future__ import annotations

from trimtab.cli.intake_text import backlog_text, intake_text
from trimtab.cli.job_sections import JobFile
from trimtab.cli.texts import duration_text, rate_text, time_text
from trimtab.driver.progress import BatchProgress, Progress


def batch_line(batch: BatchProgress) -> str:
    """One batch, for logs: its events, how long it took, its matches."""
    per_s = batch.events / (batch.batch_ms / 1000) if batch.batch_ms > 0 else 0.0
    stages = ", ".join(f"{name} {duration_text(ms)}" for name, ms in batch.stages_ms.items() if ms > 0)
    parts = [
        f"{batch.stream} batch {batch.batch}: {batch.events:,} events in {duration_text(batch.batch_ms)}"
        + (f" ({stages})" if stages else ""),
        rate_text(per_s),
        "matches " + (", ".join(f"{query} {count:,}" for query, count in batch.matches.items()) or "0"),
    ]
    parts += [
        f"{count:,} {what}" for what, count in (("late", batch.late), ("quarantined", batch.quarantined)) if count
    ]
    parts += [f"{batch.moved:,} key groups moved"] if batch.moved else []
    if batch.decision is not None and batch.decision.intake is not None:
        parts.append(f"intake {intake_text(batch.decision.intake)}")
    parts += backlog_text(batch.backlog)
    if batch.watermark_us is not None:
        parts.append(f"watermark {time_text(batch.watermark_us)}")
    return "; ".join(parts)


def summary(progress: Progress, file: JobFile, ran_s: float) -> str:
    """What a job did since it was started, and where its output is."""
    rate = rate_text(progress.events / ran_s) if ran_s > 0 else "0/s"
    lines = [
        f"{_count(progress.batches, 'batch', 'batches')}, {_count(progress.events, 'event')} in "
        f"{duration_text(ran_s * 1000)} ({rate})"
    ]
    for query in file.queries:
        found = _count(progress.matches.get(query.name, 0), "match", "matches")
        lines.append(f"  {query.name}: {found} -> {', '.join(map(str, query.sinks))}")
    for what, count in (("late", progress.late), ("quarantine", progress.quarantined)):
        sinks = [str(sink) for stream in file.streams if (sink := getattr(stream, what)) is not None]
        word = "late" if what == "late" else "quarantined"
        kept = f" -> {', '.join(sinks)}" if sinks else f", not kept: add [streams.NAME.{what}]" if count else ""
        lines.append(f"  {word}: {_count(count, 'event')}{kept}")
    lines.append(f"  state: {file.checkpoint}")
    return "\n".join(lines)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
