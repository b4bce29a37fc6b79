"""One query's state at one version: sorted runs. The newest run that has a slot holds its state.

For a key group only the recent runs that are newer than the base run which covers it apply, newest first, then the base
run. Lookups are binary searches for all slots at once; a slot that one run has is not looked for in older ones.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from trimtab.keyed_state import GROUP_SHIFT
from trimtab.state.bundle import Bundle, Part, State, assemble, state_of
from trimtab.state.gathering import BoolArray, Int64Array
from trimtab.state.manifest import ALL, StateRun
from trimtab.state.sharing import Shared

NO_FLOOR = -1
FEW = 8
"""The slots of a run with so many times fewer of them than are wanted are searched for among these."""


class Reader:
    """One query's state at one version. `runs` may come in any order; all arrays of slots are sorted."""

    def __init__(self, runs: Sequence[tuple[StateRun, Bundle]], key_groups: int) -> None:
        ordered = sorted(runs, key=lambda each: -each[0].sequence)
        self._recent = [(run, bundle) for run, bundle in ordered if not run.is_base and len(bundle.slots)]
        self._base = sorted(
            ((run, bundle) for run, bundle in ordered if run.is_base and len(bundle.slots)),
            key=lambda each: each[0].first_group,
        )
        self._floors = floors_of([run for run, _ in runs], key_groups)
        self._highest_floor = int(self._floors.max(initial=NO_FLOOR))

    def load(self, slots: Int64Array, shared: Shared | None = None) -> State:
        """The state of these slots, sorted and distinct; an empty mapping if they have none.

        shared   what other queries have in the same places, with the same objects for slots
        """
        shared = shared or Shared()
        every = [*self._recent, *self._base]
        runs = tuple((run.sequence, run.is_base, run.first_group, run.end_group) for run, _ in every)
        searched = [slots, *(bundle.slots for _, bundle in every)]
        numbers = {id(bundle): number for number, (_, bundle) in enumerate(every)}
        what = (runs, self._floors.tobytes())
        found = shared.once(what, searched, lambda: [(numbers[id(each)], at) for each, at in self.find(slots)])
        return state_of([(every[number][1], positions) for number, positions in found], shared)

    def next_due_us(self, after_us: int) -> int | None:
        """The first deadline after that time, of any group; None: there is none. It may be outdated."""
        found = []
        for _, bundle in (*self._recent, *self._base):
            at = int(np.searchsorted(bundle.due_us, after_us, side="right"))
            found += bundle.due_us[at : at + 1].tolist()
        return min(found, default=None)

    def due(self, after_us: int | None, until_us: int, owned: BoolArray) -> Int64Array:
        """Live slots of owned groups that have a deadline in (after_us, until_us]; None: any deadline until then."""
        found: list[Int64Array] = []
        sequences: list[Int64Array] = []
        for run, bundle in (*self._recent, *self._base):
            begin = 0 if after_us is None else int(np.searchsorted(bundle.due_us, after_us, side="right"))
            end = int(np.searchsorted(bundle.due_us, until_us, side="right"))
            if begin >= end:
                continue
            slots = bundle.due_slots[begin:end]
            groups = slots >> GROUP_SHIFT
            mine = owned[groups]
            if not run.is_base and run.sequence <= self._highest_floor:
                mine &= self._floors[groups] < run.sequence
            slots = slots[mine]
            found.append(slots)
            sequences.append(np.full(len(slots), run.sequence, np.int64))
        if not found:
            return np.empty(0, np.int64)
        slots = np.concatenate(found)
        order = np.argsort(slots, kind="stable")
        slots, found_in = slots[order], np.concatenate(sequences)[order]
        for run, bundle in self._recent:
            older = np.flatnonzero(found_in < run.sequence)
            if not len(older):
                continue
            _, hit = _search(bundle.slots, slots[older])
            if hit.any():  # a newer run has the slot: only its deadline there counts, if it has any
                kept = np.ones(len(slots), np.bool_)
                kept[older[hit]] = False
                slots, found_in = slots[kept], found_in[kept]
        return slots

    def slots(self, owned: BoolArray) -> Int64Array:
        """All live slots of owned groups."""
        recent, live = self._resolved_recent
        found = [recent[live]]
        for _, bundle in self._base:
            slots = bundle.slots[np.diff(bundle.key_starts) > 0]
            _, hit = _search(recent, slots)
            found.append(slots[~hit])
        slots = np.sort(np.concatenate(found), kind="stable")  # two sorted runs: merged in one pass
        return slots[owned[slots >> GROUP_SHIFT]] if len(slots) else slots

    def find(self, slots: Int64Array) -> list[Part]:
        """Where the newest state of each slot is; each slot is in one part at most."""
        found: list[Part] = []
        left = slots
        floors = self._floors[slots >> GROUP_SHIFT] if len(slots) else slots
        for run, bundle in self._recent:
            if not len(left):
                return found
            places, hit = (_search_for_few if len(bundle.slots) * FEW < len(left) else _search)(bundle.slots, left)
            if run.sequence <= self._highest_floor:
                hit &= floors < run.sequence
            if hit.any():
                found.append((bundle, places[hit]))
                missing = ~hit
                left, floors = left[missing], floors[missing]
        if self._base and len(left):
            begins, ends = self._base_bounds
            firsts = np.searchsorted(left, begins, side="right").tolist()
            stops = np.searchsorted(left, ends, side="right").tolist()
            for (_, bundle), first, stop in zip(self._base, firsts, stops, strict=True):
                if first < stop:
                    places, hit = _search(bundle.slots, left[first:stop])
                    found.append((bundle, places[hit]))
        return found

    @cached_property
    def _base_bounds(self) -> tuple[Int64Array, Int64Array]:
        """The slots just before the first slot, and the last slots, that each base run covers."""
        begins = [(run.first_group << GROUP_SHIFT) - 1 for run, _ in self._base]
        ends = [(run.end_group << GROUP_SHIFT) - 1 for run, _ in self._base]
        return np.array(begins, np.int64), np.array(ends, np.int64)

    @cached_property
    def _resolved_recent(self) -> tuple[Int64Array, BoolArray]:
        """All slots of recent runs, where these apply, and which of them are live."""
        found: list[Int64Array] = []
        lives: list[BoolArray] = []
        for run, bundle in self._recent:
            applies = self._floors[bundle.slots >> GROUP_SHIFT] < run.sequence
            found.append(bundle.slots[applies])
            lives.append((np.diff(bundle.key_starts) > 0)[applies])
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        # The first of equal ones is the newest: runs come newest first.
        slots, first = np.unique(np.concatenate(found), return_index=True)
        return slots, np.concatenate(lives)[first]


def needed(runs: Sequence[StateRun], owned: BoolArray) -> list[StateRun]:
    """The runs that a reader of these groups needs: recent ones with slots of them, base runs that cover one of them.

    A base run without slots of a group still says that older runs don't apply there.
    """
    wanted = bits(owned)
    return [
        run
        for run in runs
        if (owned[run.first_group : run.end_group].any() if run.is_base else bits_of(run.groups) & wanted)
    ]


def held_by(slots: Int64Array) -> str:
    """The groups of some sorted slots, as text that fits into a manifest: engines open only the runs they need.

    A set of groups is an integer with a bit for each, as bytes (the lowest group first), compressed, in base 64. For
    16,384 groups on 64 engines that is about 350 characters a run; for 1,024 groups in one range it is 24.

    >>> packed = held_by(np.array([3 << 48, 5 << 48, (5 << 48) + 1]))
    >>> bin(bits_of(packed)), bits_of(packed) == bits(np.array([False, False, False, True, False, True]))
    ('0b101000', True)
    """
    groups = slots >> GROUP_SHIFT
    mask = np.zeros(int(groups[-1]) + 1 if len(groups) else 0, np.bool_)
    mask[groups] = True
    return base64.b64encode(zlib.compress(np.packbits(mask, bitorder="little").tobytes(), 1)).decode()


def bits(groups: BoolArray) -> int:
    """A mask of groups as an integer."""
    return int.from_bytes(np.packbits(groups, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=4096)  # of 4 kB at most
def bits_of(packed: str) -> int:
    """The groups that `held_by` packed, as an integer; all of them for `ALL`."""
    return -1 if packed == ALL else int.from_bytes(zlib.decompress(base64.b64decode(packed)), "little")


def floors_of(runs: Sequence[StateRun], key_groups: int) -> Int64Array:
    """Per key group the sequence of the base run that covers it; -1 if there is none."""
    floors = np.full(key_groups, NO_FLOOR, np.int64)
    for run in runs:
        if run.is_base:
            floors[run.first_group : run.end_group] = run.sequence
    return floors


def merge(
    runs: Sequence[tuple[StateRun, Bundle]], first_group: int, end_group: int, *, floors: Int64Array, keep_freed: bool
) -> Bundle:
    """One bundle of the runs' slots in a range of groups; if several runs have a slot, the newest is taken.

    `floors`, by group, are those of all runs at this version (`floors_of`): slots of a recent run in a group whose base
    run is as new are left out. They have to be, because the merged run counts as newer than some runs that go into it.
    """
    ordered = sorted(runs, key=lambda each: -each[0].sequence)
    parts: list[tuple[Bundle, Int64Array]] = []
    found: list[Int64Array] = []
    for run, bundle in ordered:
        within = bundle.between(first_group, end_group)
        slots = bundle.slots[within]
        if not len(slots):
            continue
        positions = np.arange(within.start, within.stop, dtype=np.int64)
        if not run.is_base and run.sequence <= floors[first_group:end_group].max():
            applies = floors[slots >> GROUP_SHIFT] < run.sequence
            slots, positions = slots[applies], positions[applies]
        parts.append((bundle, positions))
        found.append(slots)
    if not parts:
        return assemble([])
    every = np.concatenate(found)
    # A stable sort of sorted runs merges them, and puts the newest of equal slots first.
    order = np.argsort(every, kind="stable")
    ranked = every[order]
    newest = np.ones(len(every), np.bool_)
    newest[order[1:]] = ranked[1:] != ranked[:-1]
    chosen: list[Part] = []
    at = 0
    for bundle, positions in parts:
        kept = positions[newest[at : at + len(positions)]]
        at += len(positions)
        if not keep_freed:
            kept = kept[bundle.key_starts[kept + 1] > bundle.key_starts[kept]]
        chosen.append((bundle, kept))
    return assemble(chosen)


def _search(slots: Int64Array, wanted: Int64Array) -> tuple[Int64Array, BoolArray]:
    """Where each wanted slot is or would be among sorted ones, and whether it is there."""
    places = np.searchsorted(slots, wanted)
    if not len(slots):
        return places, np.zeros(len(wanted), np.bool_)
    hit: BoolArray = slots[np.minimum(places, len(slots) - 1)] == wanted
    return places, hit


def _search_for_few(slots: Int64Array, wanted: Int64Array) -> tuple[Int64Array, BoolArray]:
    """The same if far more slots are wanted, all of them different; places mean nothing where there is no hit."""
    places, hit = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    at = np.searchsorted(wanted, slots)
    numbers = np.flatnonzero(at < len(wanted))
    numbers = numbers[wanted[at[numbers]] == slots[numbers]]
    places[at[numbers]], hit[at[numbers]] = numbers, True
    return places, hit
