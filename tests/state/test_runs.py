"""Readers and merges against a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.model import Model, array, due, model_of, random_key, same, slot, tables_of
from trimtab.state.bundle import Bundle, to_bundle
from trimtab.state.compaction import Merge, apply_merges, carry_out, plan_merges
from trimtab.state.files import Folder
from trimtab.state.gathering import BoolArray
from trimtab.state.manifest import ALL, StateRun
from trimtab.state.runs import Reader, bits_of, floors_of, held_by, merge, needed
from trimtab.state.segment import open_segment, write_segment

GROUPS = 6
FEWER = settings(max_examples=max(1, settings().max_examples // 4))  # each is many batches


class Store:
    """A query's runs in memory, and a dictionary with the same state."""

    def __init__(self, seed: int, *, groups: int = GROUPS) -> None:
        self.random = np.random.default_rng(seed)
        self.groups = groups
        self.known = [slot(group, rest) for group in range(groups) for rest in (0, 1, 2, 7, (1 << 48) - 1)]
        self.truth: Model = {}
        self.runs: tuple[StateRun, ...] = ()
        self.bundles: dict[str, Bundle] = {}
        self.sequence = -1
        self.kept: Callable[[str, Bundle], Bundle] = lambda _, bundle: bundle

    def add(self, bundle: Bundle, sequence: int, is_base: bool, first: int, end: int) -> StateRun:
        name = str(len(self.bundles))
        self.bundles[name] = self.kept(name, bundle)
        groups = held_by(bundle.slots) if self.random.random() < 0.8 else ALL  # older builds didn't say
        return StateRun(name, "q", sequence, is_base, first, end, len(bundle.slots), bundle.keys, 0, groups)

    def batch(self, engines: int = 2) -> None:
        """Touch some slots; each engine writes a run of its own."""
        self.sequence += 1
        touched = [at for at in self.known if self.random.random() < 0.4]
        for at in touched:
            self.truth.pop(at, None)
            keys = int(self.random.choice([0, 1, 1, 1, 2]))
            if keys:
                self.truth[at] = tuple(random_key(self.random) for _ in range(keys))
        dealt = self.random.integers(0, engines, self.groups)
        for engine in range(engines):
            own = [at for at in touched if dealt[at >> 48] == engine]
            state = tables_of({at: self.truth[at] for at in own if at in self.truth}, self.random)
            run = self.add(to_bundle(state, array(own)), self.sequence, False, 0, self.groups)
            self.runs = (run, *self.runs)

    def carry_out(self, merge: Merge) -> tuple[Merge, list[StateRun]]:
        made = carry_out(merge, lambda run: self.bundles[run.segment], target_keys=4)
        return merge, [self.add(bundle, merge.sequence, merge.to_base, *bounds) for *bounds, bundle in made]

    def merge_anything(self) -> None:
        """Merges that no policy would choose, but that are allowed."""
        recent = sorted((run for run in self.runs if not run.is_base), key=lambda run: -run.sequence)
        base = sorted((run for run in self.runs if run.is_base), key=lambda run: run.first_group)
        sequences = sorted({run.sequence for run in recent})
        done: list[tuple[Merge, list[StateRun]]] = []
        if recent and self.random.random() < 0.6:
            bounds = sorted({0, self.groups, *(bound for run in base for bound in (run.first_group, run.end_group))})
            first, end = sorted(self.random.choice(len(bounds), 2, replace=False).tolist())
            first, end = bounds[first], bounds[end]
            own = tuple(run for run in base if first <= run.first_group < end)
            done.append(self.carry_out(Merge("q", (*recent, *own), first, end, True, own)))
        if len(sequences) > 1 and self.random.random() < 0.6:
            low, high = sorted(self.random.choice(len(sequences), 2, replace=False).tolist())
            chosen = tuple(run for run in recent if sequences[low] <= run.sequence <= sequences[high])
            done.append(self.carry_out(Merge("q", chosen, 0, self.groups, False, tuple(base))))
        if self.random.random() < 0.3:
            self.batch()  # committed while the merges run
        self.runs = apply_merges(self.runs, done)

    def merge_by_plan(self) -> None:
        done = [self.carry_out(merge) for merge in plan_merges("q", self.runs, self.groups)]
        self.runs = apply_merges(self.runs, done)

    def reader(self, owned: BoolArray | None = None) -> Reader:
        chosen = self.runs if owned is None else needed(self.runs, owned)
        runs = [(run, self.bundles[run.segment]) for run in chosen]
        return Reader([runs[i] for i in self.random.permutation(len(runs))], self.groups)

    def check(self) -> None:
        reader = self.reader()
        wanted = [at for at in self.known if self.random.random() < 0.7]
        assert same(model_of(reader.load(array(wanted))), {at: self.truth[at] for at in wanted if at in self.truth})
        owned = self.random.random(self.groups) < 0.7
        mine = {at: keys for at, keys in self.truth.items() if owned[at >> 48]}
        reader = self.reader(owned)  # an engine opens only the runs with its groups
        wanted = [at for at in wanted if owned[at >> 48]]
        assert same(model_of(reader.load(array(wanted))), {at: mine[at] for at in wanted if at in mine})
        assert reader.slots(owned).tolist() == sorted(mine)
        for after in (None, -20, 3):
            assert reader.due(after, 20, owned).tolist() == due(mine, after, 20)


@FEWER
@given(st.integers(0, 2**32))
def test_a_reader_finds_what_a_dictionary_has_whatever_was_merged(seed: int) -> None:
    store = Store(seed)
    for _ in range(10):
        store.batch(engines=int(store.random.integers(1, 4)))
        if store.random.random() < 0.6:
            store.merge_anything()
        if store.random.random() < 0.3:
            store.check()
    store.check()


@FEWER
@given(st.integers(0, 2**32))
def test_the_planned_merges_change_no_answer(seed: int) -> None:
    store = Store(seed)
    for _ in range(20):
        store.batch(engines=1)
        store.merge_by_plan()
    store.check()
    assert len({run.sequence for run in store.runs}) < 12
    assert any(run.is_base for run in store.runs)


def test_runs_read_from_files_give_the_same(tmp_path: Path) -> None:
    store = Store(5)
    folder = Folder(str(tmp_path))

    def through_a_file(name: str, bundle: Bundle) -> Bundle:
        write_segment(folder, name, {"q": bundle}, durable=False)
        return open_segment(folder.path_of(name)).part("q")

    store.kept = through_a_file
    for _ in range(20):
        store.batch()
        store.merge_anything()
        store.check()


def test_the_largest_group_number_works_as_any_other() -> None:
    groups = 32768
    slots = np.array([0, slot(groups - 1, 0), slot(groups - 1, (1 << 48) - 1)])
    assert slots[-1] == np.iinfo(np.int64).max
    bundle = to_bundle({"keys": pa.table({"__slot": slots, "deadline_us": [1, 2, 3]})}, slots)
    runs = [
        (StateRun("a", "q", 0, True, 0, groups - 1, 1, 1, 0), bundle.take(np.array([0]))),
        (StateRun("b", "q", 0, True, groups - 1, groups, 2, 2, 0), bundle.take(np.array([1, 2]))),
    ]
    reader = Reader(runs, groups)
    everything = np.ones(groups, np.bool_)
    assert reader.load(slots)["keys"]["__slot"].to_pylist() == slots.tolist()
    assert reader.slots(everything).tolist() == slots.tolist()
    assert reader.due(None, 3, everything).tolist() == slots.tolist()
    assert reader.due(2, 3, everything).tolist() == [slots[-1]]
    assert (
        merge(runs, groups - 1, groups, floors=floors_of([run for run, _ in runs], groups), keep_freed=True).keys == 2
    )


def test_without_runs_there_is_no_state() -> None:
    reader = Reader([], 4)
    owned = np.ones(4, np.bool_)
    assert reader.load(np.array([1, 2])) == {}
    assert reader.load(np.empty(0, np.int64)) == {}
    assert reader.slots(owned).tolist() == reader.due(None, 9, owned).tolist() == []
    assert len(merge([], 0, 4, floors=floors_of([], 4), keep_freed=True).slots) == 0


def test_what_a_base_run_forgot_does_not_come_back_when_older_runs_are_merged() -> None:
    """A slot has keys in batch 1 and is freed in batch 2; its base run is as new as batch 2, and doesn't have it."""
    lives = to_bundle({"keys": pa.table({"__slot": [5]})}, np.array([5]))
    freed = to_bundle({}, np.array([5]))
    other = to_bundle({"keys": pa.table({"__slot": [slot(1, 0)]})}, np.array([slot(1, 0)]))
    bundles = {"lives": lives, "freed": freed, "other": other, "base": to_bundle({}, np.array([], np.int64))}
    recent = tuple(
        StateRun(name, "q", at, False, 0, 2, 1, 1, 0) for name, at in (("other", 3), ("freed", 2), ("lives", 1))
    )
    base = StateRun("base", "q", 2, True, 0, 1, 0, 0, 0)
    [(first, end, merged)] = carry_out(Merge("q", recent, 0, 2, False, (base,)), lambda run: bundles[run.segment])
    assert (first, end, merged.slots.tolist()) == (0, 2, [slot(1, 0)])


@given(st.sets(st.integers(0, 32_767)))
def test_a_run_says_which_groups_it_holds(groups: set[int]) -> None:
    slots = array(slot(group, rest) for group in groups for rest in (0, (1 << 48) - 1))
    found = bits_of(held_by(slots))
    assert {group for group in range(32_768) if found >> group & 1} == groups


def test_engines_open_the_runs_of_their_own_groups_only() -> None:
    """64 engines, 12 batches each: an engine opens its 12 runs, not all 768."""
    groups, engines = 1024, 64
    runs = [
        StateRun(f"{batch}-{engine}", "q", batch, False, 0, groups, 1, 1, 0, held_by(slots))
        for engine in range(engines)
        for slots in [array(slot(group, 7) for group in range(engine, groups, engines))]
        for batch in range(12)
    ]
    found = needed(runs, np.arange(groups) % engines == 3)
    assert {run.segment for run in found} == {f"{batch}-3" for batch in range(12)}
    assert max(len(run.groups) for run in runs) < 250
