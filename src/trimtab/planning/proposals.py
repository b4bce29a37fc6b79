"""Proposals: changes of a placement, weighed before they are carried out.

A proposal is written into the board's array: units, the nodes that they would go to, and how those nodes would change.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import excess, shift


@kernel
def forget(board):
    """Start a new proposal."""
    board.now[0].changes = 0
    board.now[0].touched = 0


@kernel
def propose(board, unit, node):
    """Add a change to the proposal, and how it changes the nodes' levels."""
    now, nodes, proposal = board.now, board.nodes, board.proposal
    before, work = board.units[unit].owner, board.units[unit].work
    proposal[now[0].changes].unit, proposal[now[0].changes].node = unit, node
    now[0].changes += 1
    _touch(now, proposal, before, -work * nodes[before].points)
    _touch(now, proposal, node, work * nodes[node].points)


@kernel
def propose_only(board, unit, node):
    """Start a new proposal of this one change."""
    forget(board)
    propose(board, unit, node)


@kernel
def _touch(now, proposal, node, points):
    for place in range(now[0].touched):
        if proposal[place].touched == node:
            proposal[place].by += points
            return
    proposal[now[0].touched].touched, proposal[now[0].touched].by = node, points
    now[0].touched += 1


@kernel
def level_after(board, node):
    """The level that a node would have after the proposal."""
    for place in range(board.now[0].touched):
        if board.proposal[place].touched == node:
            return board.nodes[node].level + board.proposal[place].by
    return board.nodes[node].level


@kernel
def gain(board):
    """By how many points the nodes would be nearer to the band, added up; negative if they would be farther off."""
    up, low, total = board.now[0].up, board.now[0].low, 0.0
    for place in range(board.now[0].touched):
        level = board.nodes[board.proposal[place].touched].level
        total += excess(level, up, low) - excess(level + board.proposal[place].by, up, low)
    return total


@kernel
def emptied(board):
    """How many points of load would leave the closed nodes; negative if load would go back there."""
    units, nodes, proposal, total = board.units, board.nodes, board.proposal, 0.0
    for change in range(board.now[0].changes):
        unit = proposal[change].unit
        leaves = int(nodes[units[unit].owner].points == 0.0) - int(nodes[proposal[change].node].points == 0.0)
        total += leaves * units[unit].work * board.now[0].per_load
    return total


@kernel
def fits(board):
    """Whether every node would have room for the side resources."""
    proposal, now = board.proposal, board.now
    for side in range(board.needs.shape[1]):
        for place in range(now[0].touched):
            node, more = proposal[place].touched, 0.0
            for change in range(now[0].changes):
                unit = proposal[change].unit
                if proposal[change].node == node:
                    more += board.needs[unit, side]
                if board.units[unit].owner == node:
                    more -= board.needs[unit, side]
            if more > 0.0 and more > board.room[node, side]:
                return False
    return True


@kernel
def within_budget(board):
    """Whether the budget allows what would be spent after the proposal, or the proposal spends nothing more."""
    units, now, moves, cost = board.units, board.now, 0, 0.0
    for change in range(now[0].changes):
        unit = board.proposal[change].unit
        home = units[unit].home
        leaves = int(home == units[unit].owner) - int(home == board.proposal[change].node)
        moves += leaves
        cost += leaves * units[unit].cost
    if moves > 0 and now[0].away + moves > now[0].max_moves:
        return False
    return cost <= 0.0 or now[0].cost + cost <= now[0].max_cost


@kernel
def accept(board):
    """Carry the proposal out."""
    for change in range(board.now[0].changes):
        shift(board, board.proposal[change].unit, board.proposal[change].node)


@kernel
def shift_if_allowed(board, unit, node):
    """Put a unit on another open node if budget and room allow it."""
    propose_only(board, unit, node)
    if board.units[unit].owner != node and within_budget(board) and fits(board):
        shift(board, unit, node)
