"""The board that a search begins with: pieces at home, and those without one on the least utilised nodes.

Compiled: importing this imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.errors import BalanceError
from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import DRAFT, MEMBER, MOST_TOUCHED, NODE, NOW, PIECE, Board, Records
from trimtab.planning.draft import SLACK
from trimtab.planning.pieces import Pieces
from trimtab.planning.problem import NEW, BoolArray, Float64Array, Problem, no_room

CHAIN, CHAIN_NODES = 0.4, 16.0
"""How often a change brings another one along: CHAIN, or CHAIN_NODES / nodes if that is less. Chains find what nothing
else does where every move counts, and are a waste of time among 1,000 nodes (measured)."""


def board_of(problem: Problem, parts: Pieces, *, seed: int = 0) -> Board:
    """Start with every piece at home, and the others on the nodes that they leave the least utilised."""
    nodes = np.zeros(problem.nodes, dtype=NODE)
    opened = problem.open_nodes
    nodes["points"][opened] = 100.0 / problem.strength[opened]
    nodes["level"][opened] = -problem.mean
    nodes["outside_at"] = -1
    pieces = np.zeros(parts.count, dtype=PIECE)
    pieces["work"] = parts.works
    pieces["home"] = pieces["owner"] = parts.homes
    pieces["first"], pieces["last"] = parts.first[:-1], parts.first[1:]
    pieces["away_at"] = -1
    members = np.zeros(problem.units, dtype=MEMBER)
    members["home"], members["cost"] = problem.homes[parts.members], problem.move_costs[parts.members]
    now = np.zeros(1, dtype=NOW)
    now["per_load"] = 100.0 / float(problem.strength[opened].sum())
    now["max_moves"] = np.inf if problem.max_moves is None else problem.max_moves
    now["max_cost"] = np.inf if problem.max_cost is None else problem.max_cost * (1 + SLACK)
    now["chain"] = min(CHAIN, CHAIN_NODES / problem.nodes)
    now["random"] = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    board = Board(
        pieces=pieces,
        nodes=nodes,
        now=now,
        pool=np.zeros(3 * parts.count + 12 * problem.nodes, dtype=np.int64),
        members=members,
        draft=np.zeros(MOST_TOUCHED, dtype=DRAFT),
        needs=np.ascontiguousarray(parts.needs),
        room=np.ascontiguousarray(_room(problem, parts)),
    )
    stuck = _place(board, _loads(problem, parts))
    if stuck >= 0:
        raise no_room(int(parts.members[parts.first[stuck]]))
    _list(nodes, now, "open", opened)
    _list(nodes, now, "closed", ~opened & (np.bincount(pieces["owner"], minlength=problem.nodes) > 0))
    _list(pieces, now, "free", pieces["home"] == NEW)
    _fill(board)
    if now["moves"][0] > now["max_moves"][0] or now["cost"][0] > now["max_cost"][0]:
        message = f"bringing units together takes {now['moves'][0]:.0f} moves and a cost of {now['cost'][0]:g}"
        raise BalanceError("plan.together", message, "that is more than the budget: tie fewer units, or allow more")
    return board


def _list(records: Records, now: Records, name: str, chosen: BoolArray) -> None:
    """Write the numbers of the chosen records into the column that lists them."""
    places = np.flatnonzero(chosen)
    records[f"nth_{name}"][: len(places)] = places
    now[name] = len(places)


def _room(problem: Problem, parts: Pieces) -> Float64Array:
    """What is left of each side resource before pieces without a home are placed, with those that have one on it."""
    sides = np.arange(problem.loads.shape[1]) != problem.bottleneck
    has = problem.capacities[:, sides]
    at_home = np.zeros_like(has)
    homed = problem.homes != NEW
    np.add.at(at_home, problem.homes[homed], problem.loads[homed][:, sides])
    used = np.zeros_like(has)
    placed = parts.homes != NEW
    np.add.at(used, parts.homes[placed], parts.needs[placed])
    room: Float64Array = np.maximum(has, at_home) * (1 + SLACK) + SLACK - used
    return room


def _loads(problem: Problem, parts: Pieces) -> Float64Array:
    placed = parts.homes != NEW
    return np.bincount(parts.homes[placed], weights=parts.works[placed], minlength=problem.nodes).astype(np.float64)


@kernel
def _place(board, loads):
    """Find nodes for pieces without a home and joined ones too large for theirs; a piece that fits nowhere, or -1."""
    pieces, needs, room = board.pieces, board.needs, board.room
    for piece in range(pieces.size - 1, -1, -1):
        home, work = pieces[piece].home, pieces[piece].work
        if home != NEW:
            # Only joining can overfill a home; units that just stay never do.
            if pieces[piece].last - pieces[piece].first == 1 or not _overfull(room, home):
                continue
            loads[home] -= work
            for side in range(needs.shape[1]):
                room[home, side] += needs[piece, side]
            pieces[piece].home = NEW
        node = _least_filled(board, loads, piece)
        if node < 0:
            return piece
        loads[node] += work
        for side in range(needs.shape[1]):
            room[node, side] -= needs[piece, side]
        pieces[piece].owner = node
    return -1


@kernel
def _overfull(room, node):
    """Whether a side resource of a node is used past its limit."""
    overfull = False
    for side in range(room.shape[1]):
        overfull |= room[node, side] < 0.0
    return overfull


@kernel
def _least_filled(board, loads, piece):
    """The open node with room that a piece would leave the least utilised, or -1."""
    best, level = -1, np.inf
    for node in range(board.nodes.size):
        after = (loads[node] + board.pieces[piece].work) * board.nodes[node].points
        if board.nodes[node].points == 0.0 or after >= level:
            continue
        enough = True
        for side in range(board.needs.shape[1]):
            enough &= board.needs[piece, side] <= board.room[node, side]
        if enough:
            best, level = node, after
    return best


@kernel
def _fill(board):
    """Fill the lists of pieces, the levels and what is spent from the owners."""
    pieces, nodes, now = board.pieces, board.nodes, board.now
    for piece in range(pieces.size):
        nodes[pieces[piece].owner].space += 1
    for node in range(nodes.size):
        nodes[node].space += nodes[node].space // 2 + 4
        nodes[node].start = now[0].pool_end
        now[0].pool_end += nodes[node].space
    for piece in range(pieces.size):
        owner, work = pieces[piece].owner, pieces[piece].work
        nodes[owner].level += work * nodes[owner].points
        if nodes[owner].points == 0.0:
            now[0].closed_points += work * now[0].per_load
        board.pool[nodes[owner].start + nodes[owner].count] = piece
        nodes[owner].count += 1
        for unit in range(pieces[piece].first, pieces[piece].last):
            if board.members[unit].home != NEW and board.members[unit].home != owner:
                now[0].moves += 1
                now[0].cost += board.members[unit].cost
