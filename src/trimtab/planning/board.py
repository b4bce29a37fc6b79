"""Board: a placement being searched, with everything kept up to date that makes the next change cheap to weigh.

It holds how far every node is from the mean, each node's units sorted by load, the units away from home, the nodes
outside of the band that is aimed at, and what is spent of the budget. `shift` is the only function that changes it.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import SLACK
from trimtab.planning.problem import NEW, BoolArray, Float64Array, Int32Array, Int64Array, Problem

Records = npt.NDArray[Any]

UNIT = np.dtype(
    [
        ("work", "f8"),  # what it needs of the bottleneck; units are in rising order of it
        ("cost", "f8"),  # what moving it costs
        ("home", "i8"),
        ("owner", "i8"),
        ("away_at", "i8"),  # its position in the list of units that aren't at home; -1 if it is
        ("nth_away", "i8"),  # that list: the first entries of this column
        ("nth_free", "i8"),  # the list of units without a home, which cost nothing to place
    ]
)
NODE = np.dtype(
    [
        ("level", "f8"),  # percentage points above the mean; 0 if closed
        ("points", "f8"),  # by how many a load of 1 raises it; 0 if closed
        ("start", "i8"),  # its list of units: where in the pool, how many, and how many fit
        ("count", "i8"),
        ("space", "i8"),
        ("outside_at", "i8"),  # its position in the list of nodes outside of the band; -1 if it is inside
        ("nth_outside", "i8"),  # that list: the first entries of this column
        ("nth_open", "i8"),  # the list of nodes that take units
        ("nth_closed", "i8"),  # the list of the others, as far as they hold units at first
    ]
)
NOW = np.dtype(
    [
        ("up", "f8"),  # the band that is aimed at: levels from -low to up
        ("low", "f8"),
        ("outside_points", "f8"),  # the sum of the nodes' distances from it
        ("closed_points", "f8"),  # the load on closed nodes, in percentage points of the open ones' strength
        ("per_load", "f8"),  # such points for a load of 1
        ("cost", "f8"),  # what the units away from home cost
        ("max_moves", "f8"),
        ("max_cost", "f8"),
        ("away", "i8"),  # the lengths of the lists; each unit that is away is a move
        ("free", "i8"),
        ("outside", "i8"),
        ("open", "i8"),
        ("closed", "i8"),
        ("changes", "i8"),
        ("touched", "i8"),
        ("pool_end", "i8"),
        ("chain", "f8"),  # the probability that a change brings another one along
        ("random", "u8"),  # the state of the random number generator
    ]
)
PROPOSAL = np.dtype(
    [
        ("unit", "i8"),  # the changes proposed: which unit goes to which node
        ("node", "i8"),
        ("touched", "i8"),  # the nodes that they would change, and by how many points
        ("by", "f8"),
    ]
)
MOST_TOUCHED = 16
"""The length of a proposal; each change touches at most two nodes."""
CHAIN, CHAIN_NODES = 0.4, 16.0
"""The probability that a change brings another one along: CHAIN, or CHAIN_NODES / nodes if that is less. Chains find
what nothing else does where every move counts, and are a waste of time among 1,000 nodes (measured)."""


class Board(NamedTuple):
    """A placement being searched, in a few wide arrays: compiled code passes them on one by one.

    units     (units,)        what is known of each unit
    nodes     (nodes,)        and of each node
    now       (1,)            the numbers that belong to no unit and no node
    pool      the nodes' lists of units, each in rising order
    proposal  (16,)           the change that is being weighed
    needs     (units, sides)  what a unit needs of the side resources
    room      (nodes, sides)  what is left of them
    """

    units: Records
    nodes: Records
    now: Records
    pool: Int64Array
    proposal: Records
    needs: Float64Array
    room: Float64Array


def board_of(problem: Problem, owner: Int32Array, room: Float64Array, *, seed: int = 0) -> Board:
    """Begin with a placement in which only new units aren't at home; the problem's units are in rising order of load.

    `room` is what the placement leaves of the side resources.
    """
    is_open, counts = problem.open_nodes, np.bincount(owner, minlength=problem.nodes)
    units = np.zeros(problem.units, dtype=UNIT)
    units["work"], units["cost"] = problem.work, problem.move_costs
    units["home"], units["owner"], units["away_at"] = problem.homes, owner, -1
    nodes = np.zeros(problem.nodes, dtype=NODE)
    nodes["points"][is_open] = 100.0 / problem.strength[is_open]
    nodes["level"][is_open] = problem.utilisation(owner)[is_open] - problem.mean
    nodes["outside_at"], nodes["count"], nodes["space"] = -1, counts, counts + counts // 2 + 4
    nodes["start"] = np.cumsum(nodes["space"]) - nodes["space"]
    now = np.zeros(1, dtype=NOW)
    now["per_load"] = 100.0 / float(problem.strength[is_open].sum())
    now["closed_points"] = now["per_load"] * problem.node_loads(owner)[~is_open].sum()
    now["max_moves"] = np.inf if problem.max_moves is None else problem.max_moves
    now["max_cost"] = np.inf if problem.max_cost is None else problem.max_cost * (1 + SLACK)
    now["pool_end"] = nodes["space"].sum()
    now["chain"] = min(CHAIN, CHAIN_NODES / problem.nodes)
    now["random"] = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    _list(nodes, now, "open", is_open)
    _list(nodes, now, "closed", ~is_open & (counts > 0))
    _list(units, now, "free", problem.homes == NEW)
    pool = np.zeros(3 * problem.units + 12 * problem.nodes, dtype=np.int64)
    by_node = np.argsort(owner, kind="stable")
    gaps = nodes["start"] - (np.cumsum(counts) - counts)
    pool[np.arange(problem.units) + gaps[owner[by_node]]] = by_node
    proposal = np.zeros(MOST_TOUCHED, dtype=PROPOSAL)
    needs = np.ascontiguousarray(problem.loads[:, problem.side_resources])
    return Board(units, nodes, now, pool, proposal, needs, room)


def _list(records: Records, now: Records, name: str, chosen: BoolArray) -> None:
    """Write the numbers of the chosen records into the column that lists them."""
    places = np.flatnonzero(chosen)
    records[f"nth_{name}"][: len(places)] = places
    now[name] = len(places)


@kernel
def excess(level, up, low):
    """How far a level is outside of the band."""
    return max(0.0, level - up, -low - level)


@kernel
def aim(board, up, low):
    """Aim at another band, and find the nodes outside of it."""
    nodes, now = board.nodes, board.now
    now[0].up, now[0].low = up, low
    now[0].outside, now[0].outside_points = 0, 0.0
    for place in range(now[0].open):
        node = nodes[place].nth_open
        nodes[node].outside_at = -1
        now[0].outside_points += excess(nodes[node].level, up, low)
        _add_load(nodes, now, node, 0.0)


@kernel
def shift(board, unit, node):
    """Put a unit on another node."""
    units, nodes, now = board.units, board.nodes, board.now
    before, home, work = units[unit].owner, units[unit].home, units[unit].work
    _take_out(nodes, board.pool, before, unit)
    _sort_in(nodes, now, board.pool, node, unit)
    units[unit].owner = node
    _add_load(nodes, now, before, -work)
    _add_load(nodes, now, node, work)
    for side in range(board.needs.shape[1]):
        board.room[before, side] += board.needs[unit, side]
        board.room[node, side] -= board.needs[unit, side]
    if home == before:
        now[0].cost += units[unit].cost
        units[now[0].away].nth_away = unit
        units[unit].away_at = now[0].away
        now[0].away += 1
    elif home == node:
        now[0].cost -= units[unit].cost
        now[0].away -= 1
        last = units[now[0].away].nth_away
        units[units[unit].away_at].nth_away = last
        units[last].away_at = units[unit].away_at
        units[unit].away_at = -1


@kernel
def put_back(board, owner):
    """Change the board to another placement, within the budget."""
    for unit in range(owner.size):
        if board.units[unit].owner != owner[unit]:
            shift(board, unit, owner[unit])


@kernel
def _add_load(nodes, now, node, work):
    """Change the level of a node, or the load on closed ones, and keep the list of nodes outside of the band."""
    if nodes[node].points == 0.0:
        now[0].closed_points += work * now[0].per_load
        return
    level = nodes[node].level + work * nodes[node].points
    over = excess(level, now[0].up, now[0].low)
    now[0].outside_points += over - excess(nodes[node].level, now[0].up, now[0].low)
    nodes[node].level = level
    at = nodes[node].outside_at
    if over > 0.0 and at < 0:
        nodes[now[0].outside].nth_outside = node
        nodes[node].outside_at = now[0].outside
        now[0].outside += 1
    elif over == 0.0 and at >= 0:
        now[0].outside -= 1
        last = nodes[now[0].outside].nth_outside
        nodes[at].nth_outside = last
        nodes[last].outside_at = at
        nodes[node].outside_at = -1


@kernel
def _position(nodes, pool, node, unit):
    """Where a unit is in its node's list, or would be."""
    low = nodes[node].start
    high = low + nodes[node].count
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] < unit:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _take_out(nodes, pool, node, unit):
    at, end = _position(nodes, pool, node, unit), nodes[node].start + nodes[node].count - 1
    for place in range(at, end):
        pool[place] = pool[place + 1]
    nodes[node].count -= 1


@kernel
def _sort_in(nodes, now, pool, node, unit):
    if nodes[node].count == nodes[node].space:
        _make_space(nodes, now, pool, node)
    at, end = _position(nodes, pool, node, unit), nodes[node].start + nodes[node].count
    for place in range(end, at, -1):
        pool[place] = pool[place - 1]
    pool[at] = unit
    nodes[node].count += 1


@kernel
def _make_space(nodes, now, pool, node):
    """Move a full list to the end of the pool, where it can grow; if the pool is full too, close all gaps instead."""
    wanted = 2 * nodes[node].count + 4
    if now[0].pool_end + wanted <= pool.size:
        _move_list(nodes, now, pool, node, pool, wanted)
        return
    kept = pool.copy()
    now[0].pool_end = 0
    for each in range(nodes.size):
        _move_list(nodes, now, pool, each, kept, nodes[each].count + nodes[each].count // 2 + 4)


@kernel
def _move_list(nodes, now, pool, node, kept, space):
    """Write a list, which is in `kept`, to the end of the pool."""
    start, end = nodes[node].start, now[0].pool_end
    for place in range(nodes[node].count):
        pool[end + place] = kept[start + place]
    nodes[node].start, nodes[node].space = end, space
    now[0].pool_end = end + space
