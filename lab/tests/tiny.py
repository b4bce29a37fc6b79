"""Experiments that take no time, for tests of the modules that run, store and show experiments."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(settings: Settings) -> Results:
    length = 1000 if settings.scale is Scale.FULL else 10
    steps = np.random.default_rng(settings.seed).normal(size=length)
    for done in range(5):
        settings.progress(done / 4, f"step {done}")
    table = Table("Sums", ("scheme", "ours", "paper"), (("walk", float(steps.sum()), None), ("A|B", 2, 2.5)))
    began_s = time.perf_counter()
    return Results((table,), {"x": range(length), "y": np.cumsum(steps), "took_s": began_s}, ("a note",))


def holds(results: Results) -> Verdict:
    return Verdict((Check("two sums are printed", len(results.tables[0].rows) == 2, "2", "2"),))


def fails(_results: Results) -> Verdict:
    checks = (Check("one is one", holds=True), Check("one is two", holds=False, paper="2", ours="1"))
    return Verdict(checks, "numbers do not work\nthat way")


def draw(results: Results, figure: Figure) -> None:
    axes = figure.add_subplot()
    axes.plot(results.series["x"], results.series["y"], label="walk")
    axes.set_xlabel("step")
    axes.legend()


def tiny(id_: str, *, alone: bool = False, true: bool = True) -> Experiment:
    judge = holds if true else fails
    return Experiment(id_, "Nobody 1999", "figure 1", "Sums [of steps] add up", "steps", run, judge, draw, alone=alone)


EXPERIMENTS = (tiny("tiny-one"), tiny("tiny-alone", alone=True), tiny("tiny-two"), tiny("tiny-untrue", true=False))
