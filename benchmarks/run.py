"""Run the benchmarks, print them, write them to `results.json` and make docs/benchmarks.md from it.

`python -m benchmarks.run` takes a few minutes. `--only NAME` measures one part and leaves the others as they were;
`--quick` uses small sizes and writes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import blowups, cuts, measure, planning, report, routing, shapes, vshape
from benchmarks.machine import machine
from benchmarks.results import Result, as_json

BENCHMARKS: dict[str, tuple[Callable[[], Result], Callable[[], Result]]] = {
    "vshape": (lambda: vshape.run(vshape.FULL), lambda: vshape.run(vshape.QUICK)),
    "shapes": (lambda: shapes.run(shapes.FULL), lambda: shapes.run(shapes.QUICK)),
    "blowups": (lambda: blowups.run(blowups.FULL), lambda: blowups.run(blowups.QUICK)),
    "cuts": (lambda: cuts.run(cuts.FULL), lambda: cuts.run(cuts.QUICK)),
    "routing": (lambda: routing.run(routing.FULL), lambda: routing.run(routing.QUICK)),
    "planning": (lambda: planning.run(planning.FULL), lambda: planning.run(planning.QUICK)),
}
"""By name, in the order of the page: with full sizes, and with quick ones."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the requested benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", choices=list(BENCHMARKS), help="measure one part")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    options = parser.parse_args(arguments)
    names = [options.only] if options.only else list(BENCHMARKS)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        os.environ["TRIMTAB_CACHE_DIR"] = folder  # so that first calls compile in any case
        described = machine(datetime.date.today())
        one_core = measure.use_one_core()
        measured = {name: _measured(name, quick=options.quick) for name in names}
    if options.quick:
        return
    results: dict[str, Any] = {"machine": described, "one core": one_core, "benchmarks": {}}
    if options.only and report.RESULTS.exists():
        results["benchmarks"] = json.loads(report.RESULTS.read_text(encoding="utf-8"))["benchmarks"]
    results["benchmarks"] |= {name: as_json(result) for name, result in measured.items()}
    results["benchmarks"] = {name: results["benchmarks"][name] for name in BENCHMARKS if name in results["benchmarks"]}
    report.RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    report.PAGE.write_text(report.page(results), encoding="utf-8")


def _measured(name: str, *, quick: bool) -> Result:
    began = time.perf_counter()
    result = BENCHMARKS[name][quick]()
    print(report.section(result))
    for bar in () if quick else result.bars:  # bars are meant for full sizes
        print(f"{'holds' if bar.holds else 'DOES NOT HOLD'}: {bar.claim}: {bar.number}")
    print(f"({name} took {time.perf_counter() - began:.0f} s)\n", flush=True)
    return result


if __name__ == "__main__":
    main()
