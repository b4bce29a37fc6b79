"""Proposals: a change of a placement that is weighed before anything is changed.

It is written into the board's `draft`: pieces, the nodes that they would go to, and what that does to the nodes.
Compiled: importing this imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import excess, shift


@kernel
def forget(now):
    """Start a new proposal."""
    now[0].changes = 0
    now[0].tallied = 0
    now[0].touched = 0


@kernel
def propose(now, draft, piece, node):
    """Add a change to the proposal."""
    draft[now[0].changes].piece, draft[now[0].changes].node = piece, node
    now[0].changes += 1


@kernel
def tally(pieces, nodes, now, draft):
    """Add up what the changes since the last time do to the nodes' levels: to be called before they are weighed."""
    for change in range(now[0].tallied, now[0].changes):
        piece, node = draft[change].piece, draft[change].node
        before, work = pieces[piece].owner, pieces[piece].work
        _touch(now, draft, before, -work * nodes[before].points)
        _touch(now, draft, node, work * nodes[node].points)
    now[0].tallied = now[0].changes


@kernel
def _touch(now, draft, node, points):
    for place in range(now[0].touched):
        if draft[place].touched == node:
            draft[place].by += points
            return
    draft[now[0].touched].touched, draft[now[0].touched].by = node, points
    now[0].touched += 1


@kernel
def level_after(nodes, now, draft, node):
    """The level that a node would have after the proposal."""
    for place in range(now[0].touched):
        if draft[place].touched == node:
            return nodes[node].level + draft[place].by
    return nodes[node].level


@kernel
def gain(nodes, now, draft):
    """How many points less the nodes would be outside of the band, added up; negative if more."""
    up, low, total = now[0].up, now[0].low, 0.0
    for place in range(now[0].touched):
        level = nodes[draft[place].touched].level
        total += excess(level, up, low) - excess(level + draft[place].by, up, low)
    return total


@kernel
def emptied(pieces, nodes, now, draft):
    """How many points of load would leave the closed nodes; negative if some went back there."""
    total = 0.0
    for change in range(now[0].changes):
        piece = draft[change].piece
        leaves = int(nodes[pieces[piece].owner].points == 0.0) - int(nodes[draft[change].node].points == 0.0)
        total += leaves * pieces[piece].work * now[0].per_load
    return total


@kernel
def fits(board):
    """Whether every node would have room for the side resources."""
    draft, now = board.draft, board.now
    for side in range(board.needs.shape[1]):
        for place in range(now[0].touched):
            node, more = draft[place].touched, 0.0
            for change in range(now[0].changes):
                piece = draft[change].piece
                if draft[change].node == node:
                    more += board.needs[piece, side]
                if board.pieces[piece].owner == node:
                    more -= board.needs[piece, side]
            if more > 0.0 and more > board.room[node, side]:
                return False
    return True


@kernel
def within_budget(pieces, members, now, draft):
    """Whether what is spent after the proposal is allowed, or at least no more than before."""
    moves, cost = 0, 0.0
    for change in range(now[0].changes):
        piece, node = draft[change].piece, draft[change].node
        before = pieces[piece].owner
        for unit in range(pieces[piece].first, pieces[piece].last):
            sign = int(members[unit].home == before) - int(members[unit].home == node)
            moves += sign
            cost += sign * members[unit].cost
    if moves > 0 and now[0].moves + moves > now[0].max_moves:
        return False
    return cost <= 0.0 or now[0].cost + cost <= now[0].max_cost


@kernel
def accept(board):
    """Do what is proposed."""
    for change in range(board.now[0].changes):
        shift(board, board.draft[change].piece, board.draft[change].node)


@kernel
def shift_if_allowed(board, piece, node):
    """Put a piece on another open node if budget and room allow it."""
    forget(board.now)
    propose(board.now, board.draft, piece, node)
    tally(board.pieces, board.nodes, board.now, board.draft)
    allowed = within_budget(board.pieces, board.members, board.now, board.draft) and fits(board)
    if allowed and board.pieces[piece].owner != node:
        shift(board, piece, node)
