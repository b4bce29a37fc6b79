"""Board: a placement that is being searched, kept so that a change costs next to nothing.

It knows how far every node is from the mean, the pieces of each node sorted by load, the pieces away from home, the
nodes outside of the band that is aimed at, and what is spent. `shift` is the only place where it changes.
Compiled: importing this imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trimtab.machine_code.kernel import kernel
from trimtab.planning.problem import Float64Array, Int64Array

Records = npt.NDArray[Any]

PIECE = np.dtype(
    [
        ("work", "f8"),  # what it needs of the bottleneck; pieces are in rising order
        ("home", "i8"),
        ("owner", "i8"),
        ("first", "i8"),  # where its units begin and end in `members`
        ("last", "i8"),
        ("away_at", "i8"),  # its place in the list of pieces that are not at home; -1 if it is
        ("nth_away", "i8"),  # that list: the first entries of this column
        ("nth_free", "i8"),  # the list of pieces without a home, which cost nothing to place
    ]
)
NODE = np.dtype(
    [
        ("level", "f8"),  # percentage points above the mean; 0 if closed
        ("points", "f8"),  # by how many a load of 1 raises it; 0 if closed
        ("start", "i8"),  # its list of pieces: where in the pool, how many, and how many fit
        ("count", "i8"),
        ("space", "i8"),
        ("outside_at", "i8"),  # its place in the list of nodes outside of the band; -1 if it is inside
        ("nth_outside", "i8"),  # that list: the first entries of this column
        ("nth_open", "i8"),  # the list of nodes that take pieces
        ("nth_closed", "i8"),  # the list of the others, as far as they hold pieces at first
    ]
)
NOW = np.dtype(
    [
        ("up", "f8"),  # the band that is aimed at: levels from -low to up
        ("low", "f8"),
        ("outside_points", "f8"),  # how far nodes are outside of it, added up
        ("closed_points", "f8"),  # the load on closed nodes, in points of the open ones' strength
        ("per_load", "f8"),  # such points for a load of 1
        ("moves", "f8"),
        ("cost", "f8"),
        ("max_moves", "f8"),
        ("max_cost", "f8"),
        ("away", "i8"),  # the lengths of the lists
        ("free", "i8"),
        ("outside", "i8"),
        ("open", "i8"),
        ("closed", "i8"),
        ("changes", "i8"),
        ("tallied", "i8"),
        ("touched", "i8"),
        ("pool_end", "i8"),
        ("chain", "f8"),  # how often a change brings another one along
        ("random", "u8"),  # the state of the random numbers
    ]
)
MEMBER = np.dtype([("home", "i8"), ("cost", "f8")])
DRAFT = np.dtype(
    [
        ("piece", "i8"),  # the changes proposed: which piece goes to which node
        ("node", "i8"),
        ("touched", "i8"),  # the nodes that they would change, and by how many points
        ("by", "f8"),
    ]
)
MOST_TOUCHED = 16
"""The length of a draft; a proposal touches at most two nodes with each change."""


class Board(NamedTuple):
    """Columns of a placement being searched; few and wide, since compiled code hands them on one by one.

    pieces   (pieces,)        what is known of each piece
    nodes    (nodes,)         and of each node
    now      (1,)             the numbers that belong to no piece and no node
    pool     lists of pieces, one for each node, each rising
    members  (units,)         the home and the cost of each unit, piece by piece
    draft    (16,)            the change that is being weighed
    needs    (pieces, sides)  what a piece needs of the side resources
    room     (nodes, sides)   what is left of them
    """

    pieces: Records
    nodes: Records
    now: Records
    pool: Int64Array
    members: Records
    draft: Records
    needs: Float64Array
    room: Float64Array


@kernel
def excess(level, up, low):
    """How far a level is outside of the band."""
    over = max(level - up, -low - level)
    return over if over > 0.0 else 0.0


@kernel
def aim(board, up, low):
    """Aim at another band, and find the nodes outside of it."""
    nodes, now = board.nodes, board.now
    now[0].up, now[0].low = up, low
    now[0].outside, now[0].outside_points = 0, 0.0
    for place in range(now[0].open):
        node = nodes[place].nth_open
        over = excess(nodes[node].level, up, low)
        nodes[node].outside_at = -1
        if over > 0.0:
            nodes[now[0].outside].nth_outside = node
            nodes[node].outside_at = now[0].outside
            now[0].outside += 1
            now[0].outside_points += over


@kernel
def shift(board, piece, node):
    """Put a piece on another node."""
    pieces, nodes, now = board.pieces, board.nodes, board.now
    before, home, work = pieces[piece].owner, pieces[piece].home, pieces[piece].work
    _take_out(nodes, board.pool, before, piece)
    _sort_in(nodes, now, board.pool, node, piece)
    pieces[piece].owner = node
    _add_load(nodes, now, before, -work)
    _add_load(nodes, now, node, work)
    for unit in range(pieces[piece].first, pieces[piece].last):
        sign = int(board.members[unit].home == before) - int(board.members[unit].home == node)
        now[0].moves += sign
        now[0].cost += sign * board.members[unit].cost
    for side in range(board.needs.shape[1]):
        board.room[before, side] += board.needs[piece, side]
        board.room[node, side] -= board.needs[piece, side]
    if home == before:
        pieces[now[0].away].nth_away = piece
        pieces[piece].away_at = now[0].away
        now[0].away += 1
    elif home == node:
        now[0].away -= 1
        last = pieces[now[0].away].nth_away
        pieces[pieces[piece].away_at].nth_away = last
        pieces[last].away_at = pieces[piece].away_at
        pieces[piece].away_at = -1


@kernel
def _add_load(nodes, now, node, work):
    """Change the level of a node, or what is left on closed ones, and keep the list of nodes outside of the band."""
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
def _position(nodes, pool, node, piece):
    """Where a piece is in its node's list, or would be."""
    low = nodes[node].start
    high = low + nodes[node].count
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] < piece:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _take_out(nodes, pool, node, piece):
    at, end = _position(nodes, pool, node, piece), nodes[node].start + nodes[node].count - 1
    for place in range(at, end):
        pool[place] = pool[place + 1]
    nodes[node].count -= 1


@kernel
def _sort_in(nodes, now, pool, node, piece):
    if nodes[node].count == nodes[node].space:
        _make_space(nodes, now, pool, node)
    at, end = _position(nodes, pool, node, piece), nodes[node].start + nodes[node].count
    for place in range(end, at, -1):
        pool[place] = pool[place - 1]
    pool[at] = piece
    nodes[node].count += 1


@kernel
def _make_space(nodes, now, pool, node):
    """Let a full list grow at the end of the pool; if that is full too, close all gaps first."""
    wanted = 2 * nodes[node].count + 4
    if now[0].pool_end + wanted > pool.size:
        _close_gaps(nodes, now, pool)
        return
    start, end = nodes[node].start, now[0].pool_end
    for place in range(nodes[node].count):
        pool[end + place] = pool[start + place]
    nodes[node].start, nodes[node].space = end, wanted
    now[0].pool_end = end + wanted


@kernel
def _close_gaps(nodes, now, pool):
    """Write all lists one after another, each with some space."""
    kept = np.empty(now[0].pool_end, np.int64)
    for place in range(kept.size):
        kept[place] = pool[place]
    end = 0
    for node in range(nodes.size):
        start = nodes[node].start
        for place in range(nodes[node].count):
            pool[end + place] = kept[start + place]
        nodes[node].start, nodes[node].space = end, nodes[node].count + nodes[node].count // 2 + 4
        end += nodes[node].space
    now[0].pool_end = end
