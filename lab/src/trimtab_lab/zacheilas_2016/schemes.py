"""One live run per scheme, order and size, shared by all figures of a process that use it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab_lab.experiment import Scale, Settings
from trimtab_lab.live.job_run import Float64Array, Int64Array, JobPlan, JobRun, run_job, write_files
from trimtab_lab.live.key_groups import groups_of_keys
from trimtab_lab.live.scratch import scratch_folder
from trimtab_lab.zacheilas_2016.feeds import ENGINES, HISTORY, KEY_GROUPS, KEYS, SCHEMA, Order, Sent, sent

if TYPE_CHECKING:
    from trimtab.deciding.policy import Balance

KG, KG_6, PKG, LPTF, DLB_L, DLB_H = "KG", "KG, 6 engines", "PKG", "LPTF", "DLB-L", "DLB-H"
EXACT = (KG, LPTF, DLB_L, DLB_H)
BALANCED = (LPTF, DLB_L, DLB_H)
PLANNERS = {LPTF: "lptf", DLB_L: "dlb-light", DLB_H: "dlb-heavy"}

THRESHOLD = 15.0
"""The paper's threshold, as relative standard deviation in percent."""

HALF_LIFE = 0.7
"""Batches over which loads are averaged: the last one counts most."""

PAPER_HELD, PAPER_TUPLE_S, PAPER_RUN_S = 677_886 / 0.76, 0.001, 2_400.0
"""Tweets that the paper's engines held, by LPTF's figures; the time to fetch one; the length of a run."""

SCHEME_COLOURS = {KG: "#d55e00", KG_6: "#e69f00", PKG: "#cc79a7", LPTF: "#4d4d4d", DLB_L: "#56b4e9", DLB_H: "#0072b2"}


@dataclass(frozen=True, eq=False)
class SchemeRun:
    """A scheme's run over a feed; what the job doesn't measure is computed from the feed and the placements."""

    scheme: str
    order: Order
    sent: Sent
    run: JobRun

    @property
    def engines(self) -> int:
        """The number of engines."""
        return len(self.run.batches[0].engines)

    @cached_property
    def rstd(self) -> Float64Array:
        """(batches,) RSTD of the engines' tweets, in percent."""
        return np.array([batch.rstd_of_events for batch in self.run.batches])

    @cached_property
    def stories(self) -> set[int]:
        """The ids of the first stories that it reported."""
        return set(self.run.found.column("id").to_pylist())

    @cached_property
    def held_keys(self) -> tuple[int, ...]:
        """How many keys have state, batch by batch."""
        return tuple(int(np.count_nonzero(self.sent.held(batch))) for batch in range(len(self.run.batches)))

    @cached_property
    def moved_keys(self) -> tuple[int, ...]:
        """How many keys with tweets moved to another engine before each batch."""
        return tuple(int(np.count_nonzero(self._moved_tweets(batch))) for batch in range(len(self.run.batches)))

    @cached_property
    def moved_tweets(self) -> tuple[int, ...]:
        """How many tweets are in the state of keys that moved to another engine before each batch."""
        return tuple(int(self._moved_tweets(batch).sum()) for batch in range(len(self.run.batches)))

    def _moved_tweets(self, batch: int) -> Int64Array:
        if self.scheme not in BALANCED:
            return np.zeros(KEYS, np.int64)
        return np.where(self.run.moved(batch)[_groups()], self.sent.held(batch), 0)

    @property
    def rebalances(self) -> npt.NDArray[np.int64]:
        """The batches before which keys moved."""
        return np.flatnonzero(np.array(self.moved_tweets) > 0)

    @cached_property
    def spans_s(self) -> Float64Array:
        """(batches,) measured: the time that each took."""
        return self.run.spans_s

    @cached_property
    def waits_s(self) -> Float64Array:
        """(batches,) the simulated cost of the engine with the most tweets: the least time of a batch."""
        return np.asarray(self.run.events.max(axis=1) * self.sent.size.wait_us * 1e-6)

    def pauses_s(self, tuple_s: float) -> Float64Array:
        """(batches,) computed: how long retransmissions would delay a batch, at `tuple_s` per tuple."""
        return np.array(self.moved_tweets) * tuple_s

    def rates(self, spans_s: Float64Array) -> Float64Array:
        """(batches,) tweets a second if batches take `spans_s`."""
        return np.asarray(self.run.events.sum(axis=1) / spans_s)


def tuple_cost_s(runs: dict[str, SchemeRun]) -> float:
    """The time to retransmit a tuple: the paper's millisecond, scaled to a shorter run.

    Moving everything that is held takes the same share of a run as in the paper, where engines fetch in parallel.
    """
    share = PAPER_HELD * PAPER_TUPLE_S / ENGINES / PAPER_RUN_S
    first = next(iter(runs.values()))
    held = float(first.sent.held(len(first.run.batches)).sum())
    return share * float(runs[KG].spans_s[1:].sum()) / held


def runs_of(schemes: tuple[str, ...], order: Order, settings: Settings) -> dict[str, SchemeRun]:
    """The schemes' runs, made now unless they were made before."""
    found = {}
    for place, scheme in enumerate(schemes):
        settings.progress(place / len(schemes), f"{scheme}, {order.value}")
        found[scheme] = _run(scheme, order, settings.scale, settings.seed)
    return found


@cache
def _run(scheme: str, order: Order, scale: Scale, seed: int) -> SchemeRun:
    feed, tweets = _files(order, scale, seed), sent(order, scale, seed)
    plan = _plan(scheme)
    run = run_job(plan, feed, scratch_folder(), past=_past(scheme == PKG, scale, seed), close=True)
    return SchemeRun(scheme, order, tweets, run)


@cache
def _past(is_split: bool, scale: Scale, seed: int) -> Path:
    """The checkpoint of a job that has processed the past, with nothing moved yet."""
    tables = sent(Order.DEFAULT, scale, seed).tables(is_past=True)
    run = run_job(_plan(PKG if is_split else KG), write_files(scratch_folder() / "past", tables), scratch_folder())
    return run.checkpoint


@cache
def _files(order: Order, scale: Scale, seed: int) -> Path:
    return write_files(scratch_folder() / "feed", sent(order, scale, seed).tables(is_past=False))


def _plan(scheme: str) -> JobPlan:
    keys = "(fingerprint, salt)" if scheme == PKG else "fingerprint"
    sql = (
        f"SELECT * FROM first_story_at_a_cost(TABLE(feed) PARTITION BY {keys} ORDER BY ts, history => {HISTORY}, "
        "tau => 0.2)"
    )
    _register()
    engines = ENGINES + 1 if scheme == KG_6 else ENGINES
    return JobPlan(sql, SCHEMA, engines, KEY_GROUPS, _balance(scheme))


def _balance(scheme: str) -> Balance | None:
    from trimtab.deciding.policy import Balance

    if scheme not in PLANNERS:
        return None
    return Balance(
        planner=PLANNERS[scheme],
        measure="events",
        max_rstd=THRESHOLD,
        patience=1,
        period_batches=1,
        max_moves=KEY_GROUPS,
        half_life_batches=HALF_LIFE,
    )


@cache
def _register() -> None:
    """Register the operator, and compile it, so that workers load the machine code of this process."""
    from trimtab_lab.live.operators import FirstStoryAtACost

    terms = pa.array([[1, 2]], pa.list_(pa.int32()))
    FirstStoryAtACost().open(None).on_rows(pa.table({"id": [0], "terms": terms, "wait_us": [0]}))


@cache
def _groups() -> Int64Array:
    return groups_of_keys(KEY_GROUPS, KEYS)
