"""The policy of merging, by sizes alone over a thousand batches, and what is left after merges."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.state.model import array, model_of, random_key, slot, tables_of
from trimtab.errors import StateError
from trimtab.state.bundle import to_bundle
from trimtab.state.compaction import (
    MAX_BATCHES,
    SMALL_KEYS,
    TARGET_KEYS,
    Merge,
    apply_merges,
    cut_into_ranges,
    cuts,
    plan_merges,
)
from trimtab.state.manifest import StateRun
from trimtab.state.runs import floors_of

GROUPS = 256


def recent(name: str, sequence: int, slots: int = 10) -> StateRun:
    return StateRun(name, "q", sequence, False, 0, GROUPS, slots, slots, 0)


def base(name: str, sequence: int, first: int = 0, end: int = GROUPS, keys: int = 10) -> StateRun:
    return StateRun(name, "q", sequence, True, first, end, keys, keys, 0)


@dataclass
class Simulation:
    """Batches that touch keys at random, simulated by sizes: which share of each group's keys a run holds."""

    keys: int
    engines: int = 1
    runs: tuple[StateRun, ...] = ()
    shares: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    touched: int = 0
    written: int = 0
    most_batches: int = 0
    most_recent: int = 0
    largest_base: int = 0
    largest_plan: int = 0
    weights: list[float] = field(default_factory=list)  # of recent runs, in parts of all keys

    def run(self, batches: int, touched: Callable[[int], int], lag: int = 1) -> Simulation:
        """Simulate batches; a merge takes as long as `lag` of them."""
        plan: list[Merge] = []
        for sequence in range(batches):
            for engine in range(self.engines):
                share = np.zeros(GROUPS)
                share[engine :: self.engines] = min(1.0, touched(sequence) / self.keys)
                run = self.add(share, sequence, False, 0, GROUPS)
                self.touched += run.slots
                self.runs = (run, *self.runs)
            if sequence % lag:
                continue
            written = self.written
            if lag == 1:
                plan = plan_merges("q", self.runs, GROUPS)
            done = [(merge, self.merged(merge)) for merge in plan]
            if all(merge.to_base for merge, _ in done):
                self.largest_plan = max(self.largest_plan, self.written - written)
            self.runs = apply_merges(self.runs, done)
            self.shares = {run.segment: self.shares[run.segment] for run in self.runs}
            recents = [run for run in self.runs if not run.is_base]
            self.most_batches = max(self.most_batches, len({run.sequence for run in recents}))
            self.most_recent = max(self.most_recent, len(recents))
            self.weights.append(sum(run.slots for run in recents) / self.keys)
            self.largest_base = max([self.largest_base, *(run.keys for run in self.runs if run.is_base)])
            plan = plan_merges("q", self.runs, GROUPS)  # for the next round, if it comes later
        return self

    def add(self, share: npt.NDArray[np.float64], sequence: int, is_base: bool, first: int, end: int) -> StateRun:
        name = f"{sequence}-{len(self.shares)}-{self.written}"
        self.shares[name] = share
        count = round(float(share.sum()) * self.keys / GROUPS)
        self.written += count
        return StateRun(name, "q", sequence, is_base, first, end, count, count, 0)

    def merged(self, merge: Merge) -> list[StateRun]:
        floors = floors_of(merge.base, GROUPS)
        unknown = np.ones(GROUPS)
        for run in merge.runs:
            unknown *= 1 - self.shares[run.segment] * (run.is_base | (floors < run.sequence))
        share = 1 - unknown
        if not merge.to_base:
            own = np.zeros(GROUPS)
            own[merge.first_group : merge.end_group] = 1
            return [self.add(own * share, merge.sequence, False, merge.first_group, merge.end_group)]
        starts = np.cumsum([0, *(share * self.keys / GROUPS)[merge.first_group : merge.end_group]]).astype(np.int64)
        made = []
        for begin, end in itertools.pairwise(cuts(starts, TARGET_KEYS)):
            own = np.zeros(GROUPS)
            own[merge.first_group + begin : merge.first_group + end] = 1
            run_range = merge.first_group + begin, merge.first_group + end
            made.append(self.add(own * share, merge.sequence, True, *run_range))
        return made

    @property
    def amplification(self) -> float:
        return self.written / self.touched

    @property
    def base(self) -> list[StateRun]:
        return sorted((run for run in self.runs if run.is_base), key=lambda run: run.first_group)


def test_ten_million_keys_of_which_each_batch_touches_fifty_thousand() -> None:
    done = Simulation(10_000_000).run(1000, lambda _: 50_000)
    assert done.most_batches <= 14
    assert done.amplification < 4.5
    assert max(done.weights) < 0.65  # the room that recent runs take
    assert done.largest_base <= 1.6 * TARGET_KEYS
    assert done.largest_plan <= 16 * 50_000
    assert sum(run.keys for run in done.base) == pytest.approx(10_000_000, rel=0.1)
    assert [run.first_group for run in done.base] == [0, *(run.end_group for run in done.base[:-1])]
    assert done.base[-1].end_group == GROUPS
    assert min(run.sequence for run in done.base) >= 800  # all floors rise


@pytest.mark.parametrize("lag", [2, 5])
def test_merges_that_take_longer_than_a_batch_keep_up(lag: int) -> None:
    done = Simulation(10_000_000).run(1000, lambda _: 50_000, lag)
    assert done.most_batches <= 14 + lag
    assert max(done.weights) < 0.8
    assert done.amplification < 5


def test_ten_thousand_keys_that_are_all_touched_by_every_batch() -> None:
    done = Simulation(10_000).run(1000, lambda _: 10_000)
    assert done.most_batches <= 8
    assert done.amplification < 1.2
    assert len(done.base) == 1


def test_many_keys_that_are_all_touched_by_every_batch_do_not_pile_up() -> None:
    done = Simulation(2_000_000).run(100, lambda _: 2_000_000)
    assert max(done.weights[8:]) < 3  # before that it isn't known that they are always the same keys
    assert done.amplification < 1.7


def test_engines_share_a_batch_without_more_merging() -> None:
    done = Simulation(1_000_000, engines=4).run(300, lambda _: 50_000)
    assert done.most_batches <= 14
    assert done.most_recent <= 8 * 4 + 8
    assert done.amplification < 6


@pytest.mark.parametrize(
    ("keys", "touched"),
    [
        (10_000_000, lambda batch: 1_000 if batch % 50 else 1_000_000),
        (10_000_000, lambda batch: 99_000 if batch % 2 else 1_000),
        (1_000_000, lambda batch: int(10_000 * np.random.default_rng(batch).lognormal(0, 2))),
        (100_000, lambda _: 100),
        (1_000_000, lambda batch: max(1, 300_000 >> (batch % 19))),
        (1_000_000, lambda batch: 1 << (batch % 19)),
    ],
)
def test_batches_that_differ_stay_within_the_bounds(keys: int, touched: Callable[[int], int]) -> None:
    done = Simulation(keys).run(600, touched)
    assert done.most_batches < MAX_BATCHES
    assert done.amplification < 8
    assert max(done.weights) < 3
    assert done.largest_base <= 1.6 * TARGET_KEYS


def test_the_documented_numbers_are_the_simulated_ones() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| (\d+) \| ([\d.]+) \| (\d+)% \|$", page, re.MULTILINE)
    assert len(listed) == 5
    for keys, touched, *shown in listed:
        each = int(touched.replace(",", ""))
        done = Simulation(int(keys.replace(",", ""))).run(1000, lambda _, each=each: each)  # type: ignore[misc]
        assert shown == [str(done.most_batches), f"{done.amplification:.1f}", f"{100 * max(done.weights):.0f}"]


def test_a_state_that_shrank_gets_fewer_base_runs() -> None:
    runs = tuple(base(str(n), 50, 16 * n, 16 * n + 16, keys=200) for n in range(16))
    runs = (*(recent(f"r{n}", 51 + n, 1000) for n in range(8)), *runs)
    [merge] = plan_merges("q", runs, GROUPS)
    assert (merge.first_group, merge.end_group, merge.to_base) == (0, GROUPS, True)
    assert set(merge.runs) == set(runs)
    assert sum(run.keys for run in runs) < SMALL_KEYS


def test_large_recent_runs_are_merged_by_ranges_side_by_side() -> None:
    runs = [recent(f"r{n}", n, TARGET_KEYS // 2) for n in range(8)]
    held = base("b", 0, keys=100 * TARGET_KEYS)
    merges = plan_merges("q", [*runs, held], GROUPS)
    assert [(each.first_group, each.end_group, each.to_base) for each in merges] == [
        (GROUPS * n // 4, GROUPS * (n + 1) // 4, False) for n in range(4)
    ]
    made = [StateRun(f"m{n}", "q", 7, False, m.first_group, m.end_group, 1, 1, 0) for n, m in enumerate(merges)]
    after = apply_merges([recent("r8", 8), *runs, held], [(m, [run]) for m, run in zip(merges, made, strict=True)])
    assert [run.segment for run in after] == ["r8", "m0", "m1", "m2", "m3", "b"]


def test_few_batches_need_no_merge() -> None:
    assert plan_merges("q", [], GROUPS) == []
    assert plan_merges("q", [base("b", 7)], GROUPS) == []
    assert plan_merges("q", [recent(str(n), n) for n in range(7)], GROUPS) == []


def test_a_merge_into_base_keeps_newer_runs_and_drops_those_that_no_group_needs() -> None:
    old = [recent("r2", 2), recent("r1", 1), base("left", 0, 0, 100), base("right", 1, 100, GROUPS)]
    merge = Merge("q", (old[0], old[1], old[2]), 0, 100, True, (old[2],))
    new = base("new", 2, 0, 100)
    after = apply_merges([recent("r3", 3), *old], [(merge, [new])])
    # The right half's base run is newer than batch 1, and batch 2 is still needed there.
    assert [run.segment for run in after] == ["r3", "r2", "new", "right"]


def test_a_merge_of_recent_runs_replaces_them() -> None:
    runs = [recent(f"r{n}", n) for n in (4, 3, 2, 1)]
    merge = Merge("q", tuple(runs[1:3]), 0, GROUPS, False, ())
    assert [run.segment for run in apply_merges(runs, [(merge, [recent("m", 3)])])] == ["r4", "m", "r1"]
    assert [run.segment for run in apply_merges(runs, [(merge, [])])] == ["r4", "r1"]


def test_recent_runs_stay_while_some_groups_have_no_base() -> None:
    runs = [recent("r1", 1), recent("r0", 0)]
    merge = Merge("q", tuple(runs), 0, 10, True, ())
    assert [run.segment for run in apply_merges(runs, [(merge, [base("b", 1, 0, 10)])])] == ["r1", "b", "r0"]


def test_replacing_runs_that_no_longer_exist_is_refused() -> None:
    merge = Merge("q", (recent("r1", 1),), 0, GROUPS, False, ())
    with pytest.raises(StateError, match="no longer exist"):
        apply_merges([recent("r2", 2)], [(merge, [])])


def test_a_bundle_is_cut_between_groups_and_all_groups_are_covered() -> None:
    random = np.random.default_rng(1)
    model = {slot(group, rest): (random_key(random),) for group in (2, 3, 7, 8) for rest in range(5)}
    made = cut_into_ranges(to_bundle(tables_of(model), array(model)), 1, 10, 6)
    assert [made[0][0], made[-1][1]] == [1, 10]
    assert all(left[1] == right[0] for left, right in itertools.pairwise(made))
    assert [bundle.keys for _, _, bundle in made] == [5, 10, 5]
    for first, end, bundle in made:
        assert all(first <= at >> 48 < end for at in bundle.slots.tolist())
    assert {at: keys for *_, bundle in made for at, keys in model_of(bundle.state()).items()} == model


def test_a_bundle_without_keys_is_one_range() -> None:
    [(first, end, bundle)] = cut_into_ranges(to_bundle({}, array([])), 0, GROUPS, TARGET_KEYS)
    assert (first, end, len(bundle.slots)) == (0, GROUPS, 0)
