"""Which runs to merge, and what is left when that is done: decisions from sizes alone, without I/O.

Every batch adds recent runs. Two kinds of merges keep their number down:

- *Recent into recent.* The newest batches' runs are merged into one as soon as there are `BATCHES` of about the same
  weight, and so on with the merged ones: a slot is rewritten once for every factor of `GROWTH` or so. Large ones are
  merged by ranges of groups, side by side.
- *Recent into base.* A range of groups is due when recent runs hold 1 / `SHARE` of its keys, and either it was last
  merged at least `BATCHES` batches ago or they hold `OUTWEIGHED` times its keys. Each plan takes the ranges with the
  lowest floors: at least one, and as many as are `PACE` times what was written since the last plan (by `MAX_AT_ONCE`
  batches at most). So the work is spread over batches instead of stopping one of them for long.

Bounds, for batches of any size: recent runs of at most `MAX_BATCHES` different sequences apply; base runs hold three
quarters to one and a half times `TARGET_KEYS`, give or take a group, unless there are fewer keys than that. For batches
of like size and `n` keys, a touched slot is written once by its batch, about log(n / `SHARE` / batch) / log(`GROWTH`)
times by recent merges and at most `SHARE` + 1 times by base merges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import StateError
from trimtab.state.bundle import Bundle, group_start
from trimtab.state.gathering import Int64Array
from trimtab.state.manifest import StateRun
from trimtab.state.runs import NO_FLOOR, floors_of, merge

BATCHES = 8
GROWTH = 6  # below 8, so that batches which differ a little in weight still count as alike
SHARE = 2  # 4 would write a quarter more and save a third of the room that recent runs take
OUTWEIGHED = 2
PACE = 4
MAX_AT_ONCE = 4
MAX_BATCHES = 24
TARGET_KEYS = 160_000
SMALL_KEYS = 128_000


@dataclass(frozen=True, slots=True)
class Merge:
    """Runs of one query to be merged, newest first, for a range of groups; `base`: the base runs that it had then.

    Into base: freed slots are dropped, and the result may be cut into several runs. Otherwise the result is one recent
    run; the merges of a plan whose ranges cover all groups replace all of `runs` together.
    """

    query: str
    runs: tuple[StateRun, ...]
    first_group: int
    end_group: int
    to_base: bool
    base: tuple[StateRun, ...]

    @property
    def sequence(self) -> int:
        """The sequence of the runs that it makes."""
        return max(run.sequence for run in self.runs)


def plan_merges(query: str, runs: Sequence[StateRun], key_groups: int) -> list[Merge]:
    """What to merge now; most of the time nothing.

    The merges of a plan don't affect each other. Make the next plan only after they were applied.
    """
    recent = sorted((run for run in runs if not run.is_base), key=lambda run: -run.sequence)
    base = sorted((run for run in runs if run.is_base), key=lambda run: run.first_group)
    if not recent:
        return []
    merges = _into_base(query, recent, base, key_groups)
    if sum(each.end_group - each.first_group for each in merges) == key_groups:
        return merges
    return [*merges, *_among_recent(query, recent, base, key_groups)]


def merges_of_recent(
    query: str, runs: Sequence[StateRun], base: Sequence[StateRun], key_groups: int, pieces: int = 1
) -> list[Merge]:
    """Merges that together replace recent runs: one for each of `pieces` ranges of groups."""
    edges = [key_groups * number // pieces for number in range(pieces + 1)]
    return [Merge(query, tuple(runs), first, end, False, tuple(base)) for first, end in itertools.pairwise(edges)]


def apply_merges(runs: Sequence[StateRun], done: Sequence[tuple[Merge, Sequence[StateRun]]]) -> tuple[StateRun, ...]:
    """The runs, newest first, after merges were done; `runs` may hold newer ones than the plan knew.

    A recent run is dropped once every group has a base run as new as it.
    """
    known = set(runs)
    replaced: set[StateRun] = set()
    for each, _ in done:
        gone = {run for run in each.runs if run.is_base or not each.to_base}
        if not gone <= known:
            raise StateError(
                "state.internal",
                f"a merge of query {each.query} replaces runs that no longer exist",
                "this is a mistake in trimtab: please report it; nothing was changed",
            )
        replaced |= gone
    left = [run for run in runs if run not in replaced]
    left += [run for _, made in done for run in made]
    groups = max([run.end_group for run in left] + [each.end_group for each, _ in done], default=0)
    lowest = int(floors_of(left, groups).min(initial=np.iinfo(np.int64).max)) if groups else NO_FLOOR
    left = [run for run in left if run.is_base or run.sequence > lowest]
    return tuple(sorted(left, key=lambda run: (-run.sequence, run.is_base, run.first_group, run.segment, run.part)))


def carry_out(
    each: Merge, open_run: Callable[[StateRun], Bundle], target_keys: int = TARGET_KEYS
) -> list[tuple[int, int, Bundle]]:
    """Do a merge: the bundles to write, each with the range of groups that its run covers; maybe none.

    The run of each has the merge's `sequence` and is a base run if the merge is `to_base`.
    """
    opened = [(run, open_run(run)) for run in each.runs]
    floors = floors_of(each.base, each.end_group)
    made = merge(opened, each.first_group, each.end_group, floors=floors, keep_freed=not each.to_base)
    if each.to_base:
        return cut_into_ranges(made, each.first_group, each.end_group, target_keys)
    return [(each.first_group, each.end_group, made)] if len(made.slots) else []


def cut_into_ranges(
    bundle: Bundle, first_group: int, end_group: int, target_keys: int
) -> list[tuple[int, int, Bundle]]:
    """A bundle of these groups in pieces of about `target_keys`, each with the range of groups that it covers.

    The ranges cover all groups from `first_group` up to `end_group`, also those without keys. A piece is much larger
    than the target only if a single group is.
    """
    positions = np.array([group_start(bundle.slots, group) for group in range(first_group, end_group + 1)])
    bounds = cuts(bundle.key_starts[positions], target_keys)
    if len(bounds) == 2:
        return [(first_group, end_group, bundle)]
    return [
        (first_group + begin, first_group + end, bundle.take(np.arange(positions[begin], positions[end])))
        for begin, end in itertools.pairwise(bounds)
    ]


def cuts(starts: Int64Array, target_keys: int) -> list[int]:
    """Where to cut groups into ranges of about `target_keys`, given where each group's keys start and the last ends.

    >>> cuts(np.array([0, 5, 9, 10, 20, 22]), 11)
    [0, 3, 5]
    """
    groups = len(starts) - 1
    pieces = min(max(1, round(int(starts[-1] - starts[0]) / target_keys)), groups)
    wanted = starts[0] + (starts[-1] - starts[0]) * np.arange(1, pieces) / pieces
    above = np.searchsorted(starts, wanted)
    below = np.maximum(above - 1, 0)
    nearest = np.where(wanted - starts[below] <= starts[above] - wanted, below, above)
    return sorted({0, groups, *nearest.tolist()})


@dataclass(frozen=True, slots=True)
class _Range:
    """Groups with the same floor: those of one base run, or groups without a base run."""

    first_group: int
    end_group: int
    floor: int
    keys: int
    pending: float  # an estimate of how many slots recent runs hold for it

    @property
    def work(self) -> float:
        """How many keys a merge writes at most."""
        return self.keys + self.pending

    def is_due(self, batches: int) -> bool:
        """Whether to merge it, given the number of batches since it was last merged."""
        if batches < BATCHES:  # without this, batches that touch everything would take too much room
            return self.keys >= SMALL_KEYS / 2 and self.pending >= OUTWEIGHED * self.keys
        return self.pending > 0 and self.keys <= SHARE * self.pending


def _into_base(query: str, recent: Sequence[StateRun], base: Sequence[StateRun], key_groups: int) -> list[Merge]:
    newest, oldest = recent[0].sequence, recent[-1].sequence
    ranges = _ranges(recent, base, key_groups)
    due = [number for number, each in enumerate(ranges) if each.is_due(batches=newest - max(each.floor, oldest - 1))]
    due.sort(key=lambda number: (ranges[number].floor, number))
    # Merges may take longer than a batch: then a plan makes up for the batches in between.
    batches = min(newest - max((run.sequence for run in base), default=NO_FLOOR), MAX_AT_ONCE)
    budget = PACE * batches * sum(run.slots for run in recent if run.sequence == newest)
    taken: set[int] = set()
    merges: list[Merge] = []
    spent = 0.0
    for number in due:
        if number in taken:
            continue
        window = _with_small_neighbours(ranges, number, taken)
        work = sum(ranges[each].work for each in window)
        if merges and spent + work > budget:
            break
        spent += work
        taken.update(window)
        first, end = ranges[window[0]].first_group, ranges[window[-1]].end_group
        own = tuple(run for run in base if first <= run.first_group < end)
        lowest = min(ranges[each].floor for each in window)
        merges.append(Merge(query, (*(run for run in recent if run.sequence > lowest), *own), first, end, True, own))
    return merges


def _ranges(recent: Sequence[StateRun], base: Sequence[StateRun], key_groups: int) -> list[_Range]:
    ranges: list[_Range] = []

    def add(first: int, end: int, floor: int, keys: int) -> None:
        waiting = sum(run.slots for run in recent if run.sequence > floor)
        ranges.append(_Range(first, end, floor, keys, waiting * (end - first) / key_groups))

    at = 0
    for run in base:
        if run.first_group > at:
            add(at, run.first_group, NO_FLOOR, 0)
        add(run.first_group, run.end_group, run.sequence, run.keys)
        at = run.end_group
    if at < key_groups:
        add(at, key_groups, NO_FLOOR, 0)
    return ranges


def _with_small_neighbours(ranges: Sequence[_Range], number: int, taken: set[int]) -> range:
    """The range and those beside it that together still make a small base run: ranges shrink when keys are freed."""
    first, end = number, number + 1
    work = ranges[number].work
    while end < len(ranges) and end not in taken and work + ranges[end].work <= SMALL_KEYS:
        work += ranges[end].work
        end += 1
    while first > 0 and first - 1 not in taken and work + ranges[first - 1].work <= SMALL_KEYS:
        first -= 1
        work += ranges[first].work
    return range(first, end)


def _among_recent(query: str, recent: Sequence[StateRun], base: Sequence[StateRun], key_groups: int) -> list[Merge]:
    batches = [
        (sequence, sum(run.slots for run in runs))
        for sequence, runs in itertools.groupby(recent, key=lambda run: run.sequence)
    ]
    window = _alike([slots for _, slots in batches])
    if window is None:
        return []
    sequences = {batches[number][0] for number in window}
    chosen = tuple(run for run in recent if run.sequence in sequences)
    pieces = min(max(1, round(sum(run.slots for run in chosen) / TARGET_KEYS)), key_groups)
    return merges_of_recent(query, chosen, base, key_groups, pieces)


def _alike(weights: Sequence[int]) -> Iterable[int] | None:
    """Which batches to merge, given their weights, newest first: neighbours of about the same weight, if enough."""
    found: Iterable[int] | None = None
    total = heaviest = 0
    for number, weight in enumerate(weights):
        total, heaviest = total + weight, max(heaviest, weight)
        if number + 1 >= BATCHES and heaviest * GROWTH <= total:
            found = range(number + 1)
    if found is None and len(weights) >= MAX_BATCHES:
        # Weights differ wildly: merge the neighbours that are cheapest to merge.
        sums = [sum(weights[first : first + BATCHES]) for first in range(len(weights) - BATCHES + 1)]
        first = sums.index(min(sums))
        found = range(first, first + BATCHES)
    return found
