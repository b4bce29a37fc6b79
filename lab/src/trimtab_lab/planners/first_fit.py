"""First fit: a new unit goes to the first node with room. Also `Room`, which tracks what is left on each node."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.machine_code.kernel import kernel
from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, ROUNDING, BoolArray, Float64Array, Int32Array, Int64Array, Problem


def first_fit(problem: Problem, *, threshold: float = 1.0, decreasing: bool = False) -> Plan:
    """Place every new unit on the first open node with room for it; units that have a home stay.

    Room is `threshold` times the capacity of the bottleneck (FUGU's target utilisation) and the whole capacity of the
    other resources. Nodes in use come first, then the empty ones, each in their order: an empty node is opened only if
    no other has room. Units are placed in the given order, or with `decreasing` the heaviest first, which needs at most
    11/9 of the least number of equal nodes plus 6/9.

    A unit for which no node has room goes, once the others are placed, to the least utilised open node with enough of
    the other resources, so the threshold may be passed; `without_room` returns these units. Raises BalanceError
    `plan.room` if even that is impossible.

    >>> problem = Problem(loads=[0.5, 0.4, 0.3, 0.2], homes=[1, -1, -1, -1], capacities=[1.0, 1.0, 1.0])
    >>> first_fit(problem, threshold=0.8).owner.tolist()
    [1, 0, 1, 0]

    Time O(units * nodes). References: Heinze (2013), section 3.1; Dosa (2007) for the bound.
    """
    started = time.perf_counter()
    room, _ = _packed(problem, threshold, decreasing)
    return Plan.of(problem, room.owner, "first_fit", seconds=time.perf_counter() - started)


def without_room(problem: Problem, *, threshold: float = 1.0, decreasing: bool = False) -> Int64Array:
    """The new units that `first_fit` with the same options places past the threshold: they need more nodes.

    >>> problem = Problem(loads=[0.5, 0.4, 0.3], homes=[-1, -1, -1], capacities=[1.0])
    >>> without_room(problem, threshold=0.8)
    array([1])
    """
    return _packed(problem, threshold, decreasing)[1]


def _packed(problem: Problem, threshold: float, decreasing: bool) -> tuple[Room, Int64Array]:
    room = Room(problem, threshold)
    units = np.flatnonzero(problem.homes == NEW)
    if decreasing:
        units = units[np.argsort(-problem.work[units], kind="stable")]
    nodes, misfits = room.used_first(), []
    while len(units := units[room.fill(units, nodes) :]):
        misfits.append(int(units[0]))
        units = units[1:]
    for unit in misfits:  # last, so that they take no room from a unit that fits
        room.squeeze(unit)
    return room, np.array(misfits, dtype=np.int64)


class Room:
    """What is left on each node while units are placed one after another: the working state of one planner call.

    owner   (units,)            the node of each unit so far; NEW: none
    needs   (units, resources)  what each unit needs, the bottleneck in column 0
    free    (nodes, resources)  what each node has left, the bottleneck up to the threshold; negative: passed
    open    (nodes,)            nodes that take units
    """

    def __init__(self, problem: Problem, threshold: float) -> None:
        if not threshold > 0:
            raise BalanceError("plan.threshold", f"the threshold is {threshold}", "give a share of capacity, above 0")
        self.problem, self.threshold = problem, threshold
        resources = problem.loads.shape[1]
        columns = [problem.bottleneck] + [r for r in range(resources) if r != problem.bottleneck]
        self.needs = np.ascontiguousarray(problem.loads[:, columns])
        self.open = problem.open_nodes
        self.owner: Int32Array = problem.homes.copy()
        limits = problem.capacities[:, columns] * (1 + ROUNDING / 4)  # units that fill a node exactly fit
        limits[:, 0] *= threshold
        placed = self.owner >= 0
        self.free: Float64Array = limits - np.stack(
            [np.bincount(self.owner[placed], weights=need, minlength=problem.nodes) for need in self.needs[placed].T],
            axis=1,
        )
        self.count: Int64Array = np.bincount(self.owner[placed], minlength=problem.nodes)

    @property
    def in_use(self) -> BoolArray:
        """Open nodes that have units."""
        return self.open & (self.count > 0)

    def used_first(self) -> Int64Array:
        """Open nodes in the order in which they are filled: those in use, then the empty ones."""
        used = self.in_use
        return np.concatenate((np.flatnonzero(used), np.flatnonzero(self.open & ~used)))

    def fill(self, units: Int64Array, nodes: Int64Array) -> int:
        """Place units in order, each on the first of `nodes` with room, up to the first that fits on none.

        Returns how many were placed.
        """
        return int(_fill(self.needs, self.free, self.owner, self.count, units, nodes))

    def put(self, unit: int, node: int) -> None:
        """Place a unit, even without room."""
        self.owner[unit] = node
        self.free[node] -= self.needs[unit]
        self.count[node] += 1

    def take(self, units: Int64Array) -> None:
        """Remove placed units from their nodes."""
        nodes = self.owner[units]
        np.add.at(self.free, nodes, self.needs[units])
        np.subtract.at(self.count, nodes, 1)
        self.owner[units] = NEW

    def snapshot(self) -> tuple[Int32Array, Float64Array, Int64Array]:
        """A copy for `restore`."""
        return self.owner.copy(), self.free.copy(), self.count.copy()

    def restore(self, snapshot: tuple[Int32Array, Float64Array, Int64Array]) -> None:
        """Undo everything since a snapshot was taken."""
        self.owner, self.free, self.count = snapshot

    def squeeze(self, unit: int) -> None:
        """Place a unit on the least utilised open node with enough of the resources that are not balanced."""
        beside = self.needs[unit, 1:]
        enough = self.open & np.all((beside <= 0) | (beside <= self.free[:, 1:]), axis=1)
        if not enough.any():
            raise BalanceError(
                "plan.room", f"no open node has enough memory or network for unit {unit}", "add a node, or a larger one"
            )
        left = np.divide(self.free[:, 0], self.problem.strength, out=np.full(len(enough), -np.inf), where=enough)
        self.put(unit, int(left.argmax()))


@kernel
def _fill(
    needs: Float64Array,
    free: Float64Array,
    owner: Int32Array,
    count: Int64Array,
    units: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
) -> int:
    """First fit in place; returns how many units were placed before the first that fits nowhere."""
    for done in range(units.size):
        unit = units[done]
        found = -1
        for node in nodes:
            fits = True
            for resource in range(needs.shape[1]):
                need = needs[unit, resource]
                if need > 0 and need > free[node, resource]:
                    fits = False
                    break
            if fits:
                found = node
                break
        if found < 0:
            return done
        owner[unit] = found
        count[found] += 1
        for resource in range(needs.shape[1]):
            free[found, resource] -= needs[unit, resource]
    return int(units.size)
