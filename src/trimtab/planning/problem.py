"""Problem: everything a planner may know, as columns. Plain values and measures of them; no decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

if TYPE_CHECKING:
    from scipy.sparse import csr_array, sparray

BoolArray = npt.NDArray[np.bool_]
Float64Array = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

NEW = -1
"""The home of a unit that has none yet. Placing it is no move and costs nothing."""

ROUNDING = 1e-9
"""Sums of loads may differ by this share of them, depending on the order of adding."""


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """Units with loads, the nodes they live on, and what may be spent on moving them.

    A node's utilisation is its load divided by its capacity, in percent. One resource is balanced: the bottleneck, the
    one of which the units need the greatest share. The others are limits: no node may be filled past its capacity
    (one that is already may not get more).

    loads        (units,) or (units, resources)  what a unit needs, in any measure that capacities share
    homes        (units,)                        the node a unit lives on now, or NEW
    capacities   (nodes,) or (nodes, resources)  what a node has; 0 of the bottleneck: it takes nothing
    draining     (nodes,)                        nodes that are to be emptied: they take nothing
    state_bytes  (units,)                        the size of a unit's state
    move_costs   (units,)                        what a move costs; by default the bytes of state
    traffic      (units, units), sparse          how much a unit sends to another one in a period
    operators    (units,)                        the operator a unit belongs to; by default all to one
    max_moves, max_cost                          the budget; None is no limit

    >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 1], capacities=[100.0, 100.0], max_moves=1)
    >>> problem.utilisation(problem.homes)
    array([50., 10.])
    >>> problem.load_distance(problem.homes), problem.mean
    (20.0, 30.0)
    """

    loads: Float64Array
    homes: Int32Array
    capacities: Float64Array
    draining: BoolArray
    state_bytes: Float64Array
    move_costs: Float64Array
    traffic: csr_array | None
    operators: Int32Array
    max_moves: int | None
    max_cost: float | None

    def __init__(
        self,
        loads: npt.ArrayLike,
        homes: npt.ArrayLike,
        capacities: npt.ArrayLike,
        *,
        draining: npt.ArrayLike | None = None,
        state_bytes: npt.ArrayLike | None = None,
        move_costs: npt.ArrayLike | None = None,
        traffic: sparray | None = None,
        operators: npt.ArrayLike | None = None,
        max_moves: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        """Bring every column to its shape and type. Raises BalanceError for columns that can't be."""
        needs, has = _table(loads, "loads"), _table(capacities, "capacities")
        units, nodes = len(needs), len(has)
        need(nodes > 0, "plan.nodes", "there are no nodes", "give capacities at least one entry")
        needs = needs if units else np.zeros((0, has.shape[1]))
        message = f"loads have {needs.shape[1]} resource(s) and capacities {has.shape[1]}"
        need(needs.shape[1] == has.shape[1], "plan.shape", message)
        need(max_moves is None or max_moves >= 0, "plan.budget", f"max_moves is {max_moves}", "0 or more")
        need(max_cost is None or max_cost >= 0, "plan.budget", f"max_cost is {max_cost}", "0 or more")
        sizes = _amounts(state_bytes, units, "state_bytes")
        normal = {
            "loads": needs,
            "homes": _column(homes, units, "homes", np.int32),
            "capacities": has,
            "draining": _column(draining, nodes, "draining", np.bool_),
            "state_bytes": sizes,
            "move_costs": sizes if move_costs is None else _amounts(move_costs, units, "move_costs"),
            "traffic": None if traffic is None else _traffic(traffic, units),
            "operators": _column(operators, units, "operators", np.int32),
            "max_moves": max_moves,
            "max_cost": max_cost,
        }
        for name, value in normal.items():
            object.__setattr__(self, name, value)
        are_nodes = bool(np.all((self.homes >= NEW) & (self.homes < nodes)))
        hint = f"nodes are 0 to {nodes - 1}, and {NEW} is a new unit"
        need(are_nodes, "plan.homes", "a home is not one of the nodes", hint)
        hint = "leave at least one node with capacity that is not draining"
        need(bool(self.open_nodes.any()), "plan.nodes", "no node may take units", hint)

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.homes)

    @property
    def nodes(self) -> int:
        """How many nodes there are, draining ones included."""
        return len(self.capacities)

    @cached_property
    def bottleneck(self) -> int:
        """The resource that is balanced: the one of which all units together need the greatest share."""
        if self.loads.shape[1] == 1:
            return 0
        # Added up in the order of size: problems with the same units in another order have the same bottleneck.
        needed, total = np.sort(self.loads, axis=0).sum(axis=0), self.capacities.sum(axis=0)
        share = np.divide(needed, total, out=np.zeros(len(total)), where=total > 0)
        return int(share.argmax())

    @cached_property
    def side_resources(self) -> Int64Array:
        """All resources but the bottleneck: no node may be filled past what it has of them."""
        return np.flatnonzero(np.arange(self.loads.shape[1]) != self.bottleneck)

    @cached_property
    def work(self) -> Float64Array:
        """What each unit needs of the bottleneck."""
        return np.ascontiguousarray(self.loads[:, self.bottleneck])

    @cached_property
    def strength(self) -> Float64Array:
        """What each node has of the bottleneck."""
        return np.ascontiguousarray(self.capacities[:, self.bottleneck])

    @cached_property
    def open_nodes(self) -> BoolArray:
        """The nodes that may take units: not draining, and with capacity (Madsen's set A)."""
        return ~self.draining & (self.strength > 0)

    @cached_property
    def mean(self) -> float:
        """The utilisation of every open node if all load were spread evenly over them, in percent."""
        return 100.0 * float(self.work.sum()) / float(self.strength[self.open_nodes].sum())

    def of_units(self, units: Int64Array) -> Problem:
        """The problem of these units alone, in this order.

        >>> Problem(loads=[3.0, 2.0, 1.0], homes=[0, 1, 1], capacities=[9.0, 9.0]).of_units(np.array([2, 0])).work
        array([1., 3.])
        """
        columns = ("loads", "homes", "state_bytes", "move_costs", "operators")
        traffic = None if self.traffic is None else self.traffic[units][:, units]
        return replace(self, traffic=traffic, **{name: getattr(self, name)[units] for name in columns})

    def node_loads(self, owner: npt.ArrayLike) -> Float64Array:
        """The load of each node in the bottleneck; units without an owner count nowhere."""
        return self.used(np.asarray(owner), self.bottleneck)

    def utilisation(self, owner: npt.ArrayLike) -> Float64Array:
        """The load of each node as a percentage of its capacity; 0 for a node without capacity."""
        loads = self.node_loads(owner)
        return 100.0 * np.divide(loads, self.strength, out=np.zeros(self.nodes), where=self.strength > 0)

    def load_distance(self, owner: npt.ArrayLike) -> float:
        """How far the farthest open node is from the mean, in percentage points (Madsen, section 4.3)."""
        return float(np.abs(self.utilisation(owner)[self.open_nodes] - self.mean).max())

    def rstd(self, owner: npt.ArrayLike) -> float:
        """The standard deviation of the open nodes' utilisation, in percent of its mean (Zacheilas)."""
        level = self.utilisation(owner)[self.open_nodes]
        return 100.0 * float(level.std()) / float(level.mean()) if level.mean() > 0 else 0.0

    def moved(self, owner: npt.ArrayLike) -> Int64Array:
        """The units that leave a home: what counts against `max_moves`."""
        return np.flatnonzero((np.asarray(owner) != self.homes) & (self.homes != NEW))

    def migration_cost(self, owner: npt.ArrayLike) -> float:
        """What the moves cost together: what counts against `max_cost`."""
        return float(self.move_costs[self.moved(owner)].sum())

    def collocation(self, owner: npt.ArrayLike) -> float:
        """The share of the traffic that stays inside a node, in percent; 0 without traffic."""
        if self.traffic is None or not self.traffic.nnz:
            return 0.0
        owner, pairs = np.asarray(owner), self.traffic.tocoo()
        senders, receivers = pairs.coords
        total = float(pairs.data.sum())
        return 100.0 * float(pairs.data[owner[senders] == owner[receivers]].sum()) / total if total > 0 else 0.0

    def faults(self, owner: npt.ArrayLike) -> list[str]:
        """What is wrong with a placement, in words; empty if nothing is, as for every plan."""
        owner = np.asarray(owner)
        if owner.shape != (self.units,) or not np.all((owner >= 0) & (owner < self.nodes)):
            return ["not every unit has a node"]
        found = []
        moved = self.moved(owner)
        if self.max_moves is not None and len(moved) > self.max_moves:
            found.append(f"{len(moved)} moves with {self.max_moves} allowed")
        if self.max_cost is not None and self.migration_cost(owner) > self.max_cost * (1 + ROUNDING):
            found.append(f"a migration cost of {self.migration_cost(owner)} with {self.max_cost} allowed")
        if closed := int(np.count_nonzero(~self.open_nodes[owner] & (owner != self.homes))):
            found.append(f"{closed} unit(s) put on a node that takes none")
        for resource in self.side_resources:
            limit = np.maximum(self.capacities[:, resource], self.used(self.homes, resource))
            if np.any(self.used(owner, resource) > limit * (1 + ROUNDING) + ROUNDING):
                found.append(f"resource {resource} is filled past the capacity of a node")
        return found

    def used(self, owner: npt.NDArray[np.integer], resource: int) -> Float64Array:
        """What each node holds of a resource; units without an owner count nowhere."""
        placed = owner >= 0
        return np.bincount(owner[placed], weights=self.loads[placed, resource], minlength=self.nodes).astype(float)


def no_room(unit: int) -> BalanceError:
    """The error for a new unit that fits on no node."""
    hint = "add a node, or raise the capacity of the resources that are not balanced"
    return BalanceError("plan.room", f"no node has room for the new unit {unit}", hint)


def need(holds: bool, code: str, message: str, hint: str = "") -> None:
    """Raise BalanceError unless it holds."""
    if not holds:
        raise BalanceError(code, message, hint)


def _table(values: npt.ArrayLike, name: str) -> Float64Array:
    """Amounts as (things, resources)."""
    table = np.asarray(values, dtype=np.float64)
    table = table.reshape(-1, 1) if table.ndim == 1 else table
    need(table.ndim == 2 and table.shape[1] > 0, "plan.shape", f"{name} must have one or two dimensions")
    need(bool(np.all(np.isfinite(table) & (table >= 0))), "plan.loads", f"{name} must be finite and not negative")
    return np.ascontiguousarray(table)


def _column(values: npt.ArrayLike | None, size: int, name: str, dtype: type) -> npt.NDArray[Any]:
    column = np.zeros(size) if values is None else np.asarray(values)
    need(column.shape == (size,), "plan.shape", f"{name} has the shape {column.shape}, and ({size},) was expected")
    return column.astype(dtype)


def _amounts(values: npt.ArrayLike | None, size: int, name: str) -> Float64Array:
    return _table(_column(values, size, name, np.float64), name)[:, 0]


def _traffic(traffic: sparray, units: int) -> csr_array:
    from trimtab.planning.linear_program import need_solvers

    need_solvers("scipy")
    from scipy.sparse import csr_array

    table = csr_array(traffic, dtype=np.float64)
    need(table.shape == (units, units), "plan.shape", f"traffic is {table.shape}, with {units} units")
    need(not table.nnz or float(table.data.min()) >= 0, "plan.loads", "traffic can't be negative")
    return table
