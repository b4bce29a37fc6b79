"""`trimtab tune`: a model of what the rows of a batch do, fitted to the log of a job, and gains designed for it."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

from trimtab.cli.intake_text import reference_text, value_text
from trimtab.cli.replay import logs_of
from trimtab.cli.texts import number_text
from trimtab.control.intake import Held, IntakeLimit
from trimtab.errors import BalanceError
from trimtab.state.checkpoint import Checkpoint

if TYPE_CHECKING:  # planners take a second to load: only when something is tuned
    from trimtab.deciding.tuning import Tuning

UNITS = {Held.BATCH_TIME: "s", Held.LATENCY: "s", Held.BACKLOG: "rows", Held.FREE_MEMORY: "of the memory"}


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "tune",
        help="fit a model to how a job's batches went, and design gains for its intake",
        description="Fit a first-order model to the log of a checkpoint: what the rows of a batch do to what its "
        "intake holds. Print the model, how well it fits, gains that place the poles of the loop, and how it would "
        "settle with them. Nothing is changed, and the job may be running. docs/control.md explains it.",
    )
    parser.add_argument("checkpoint", help="the job's checkpoint: a path or a URI")
    parser.add_argument("--stream", metavar="STREAM", help="only this stream")
    parser.add_argument(
        "--settling", type=float, default=6.0, metavar="N", help="in how many batches the loop should settle; default 6"
    )
    parser.add_argument(
        "--overshoot", type=float, default=0.0, metavar="SHARE", help="how far past its reference it may go; default 0"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read the logs, fit and print; return the exit status."""
    logs = logs_of(Checkpoint.existing(options.checkpoint), options.stream)
    from trimtab.deciding.tuning import tune

    limited = {stream: entries for stream, entries in logs.items() if entries[-1].intake is not None}
    if not limited:
        message = "nothing limits the intake of its streams"
        hint = "only streams that trimtab reads itself have an intake that can be tuned"
        raise BalanceError("control.data", message, hint)
    found = {
        stream: tune(entries, settling_batches=options.settling, overshoot=options.overshoot)
        for stream, entries in limited.items()
    }
    if options.json:
        print(json.dumps({"streams": {stream: as_json(each) for stream, each in found.items()}}, indent=2))
    else:
        print("\n\n".join(text(stream, each) for stream, each in found.items()))
    return 0


def text(stream: str, tuning: Tuning) -> str:
    """What was found for a stream, for people."""
    samples, found, design = tuning.samples, tuning.found, tuning.design
    held, model, gains = samples.held, tuning.found.model, tuning.design.gains
    limit = IntakeLimit(rows=0, held=held.value, reference=samples.reference)
    way = "set at random, the loop open" if samples.is_open else "set by the controller: excite them for a better fit"
    least, most = (number_text(round(float(each))) for each in (samples.rows.min(), samples.rows.max()))
    settled = "later than it can be computed" if design.settled_after is None else f"{design.settled_after} batches"
    margin = "any" if math.isinf(design.gain_margin) else f"{design.gain_margin:.1f} times"
    lines = (
        f"STREAM {stream}: holds {reference_text(limit)}",
        f"batches   {samples.batches[0]} to {samples.batches[-1]}, of {least} to {most} rows ({way})",
        f"model     y(k+1) = {model.a:.3g} y(k) + {model.b:.4g} u(k); "
        f"around {number_text(round(found.mean_u))} rows and {value_text(held, found.mean_y)}",
        f"          a row more: {model.steady_state_gain:.4g} {UNITS[held]} in the end; "
        f"without rows: {value_text(held, tuning.without_rows)}",
        f"fit       R2 {found.r_squared:.2f}; what is left varies by {value_text(held, tuning.residual)}",
        f"gains     proportional {gains.proportional:.5g}, integral {gains.integral:.5g} (rows for each unit of y)",
        f"loop      settles within 2 % after {settled}, overshoot {round(100 * design.overshoot)} %, poles "
        f"{', '.join(_pole(each) for each in design.poles)}; stable if a row does up to {margin} as much",
        f"to use    [job.intake] gains = [{gains.proportional:.5g}, {gains.integral:.5g}]",
    )
    return "\n".join(lines)


def as_json(tuning: Tuning) -> dict[str, Any]:
    """The same for programs."""
    samples, found, design = tuning.samples, tuning.found, tuning.design
    return {
        "held": samples.held.value,
        "reference": samples.reference,
        "batches": [samples.batches[0], samples.batches[-1]],
        "is_open": samples.is_open,
        "variation": samples.variation,
        "model": {"a": found.model.a, "b": found.model.b, "delay": found.model.delay},
        "mean_rows": found.mean_u,
        "mean_measure": found.mean_y,
        "without_rows": tuning.without_rows,
        "r_squared": found.r_squared,
        "residual": tuning.residual,
        "gains": [design.gains.proportional, design.gains.integral],
        "settled_after": design.settled_after,
        "overshoot": design.overshoot,
        "spectral_radius": design.spectral_radius,
        "gain_margin": None if math.isinf(design.gain_margin) else design.gain_margin,
    }


def _pole(pole: complex) -> str:
    return f"{pole.real:.2f}" if abs(pole.imag) < 5e-3 else f"{pole.real:.2f}{pole.imag:+.2f}i"
