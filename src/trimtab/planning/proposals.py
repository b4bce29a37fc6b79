"""Proposals: changes of a placement, weighed before they are carried out.

A proposal is written into the board's array: units, the nodes that they would go to, and how those nodes would change.
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
def propose(now, proposal, unit, node):
    """Add a change to the proposal."""
    proposal[now[0].changes].unit, proposal[now[0].changes].node = unit, node
    now[0].changes += 1


@kernel
def tally(units, nodes, now, proposal):
    """Add up how the changes since the last tally change the nodes' levels; called before they are weighed."""
    for change in range(now[0].tallied, now[0].changes):
        unit, node = proposal[change].unit, proposal[change].node
        before, work = units[unit].owner, units[unit].work
        _touch(now, proposal, before, -work * nodes[before].points)
        _touch(now, proposal, node, work * nodes[node].points)
    now[0].tallied = now[0].changes


@kernel
def propose_only(board, unit, node):
    """Start a new proposal of this one change, and tally it."""
    forget(board.now)
    propose(board.now, board.proposal, unit, node)
    tally(board.units, board.nodes, board.now, board.proposal)


@kernel
def _touch(now, proposal, node, points):
    for place in range(now[0].touched):
        if proposal[place].touched == node:
            proposal[place].by += points
            return
    proposal[now[0].touched].touched, proposal[now[0].touched].by = node, points
    now[0].touched += 1


@kernel
def level_after(nodes, now, proposal, node):
    """The level that a node would have after the proposal."""
    for place in range(now[0].touched):
        if proposal[place].touched == node:
            return nodes[node].level + proposal[place].by
    return nodes[node].level


@kernel
def gain(nodes, now, proposal):
    """By how many points the nodes would be nearer to the band, added up; negative if they would be farther off."""
    up, low, total = now[0].up, now[0].low, 0.0
    for place in range(now[0].touched):
        level = nodes[proposal[place].touched].level
        total += excess(level, up, low) - excess(level + proposal[place].by, up, low)
    return total


@kernel
def emptied(units, nodes, now, proposal):
    """How many points of load would leave the closed nodes; negative if load would go back there."""
    total = 0.0
    for change in range(now[0].changes):
        unit = proposal[change].unit
        leaves = int(nodes[units[unit].owner].points == 0.0) - int(nodes[proposal[change].node].points == 0.0)
        total += leaves * units[unit].work * now[0].per_load
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
def within_budget(units, now, proposal):
    """Whether the budget allows what would be spent after the proposal, or the proposal spends nothing more."""
    moves, cost = 0, 0.0
    for change in range(now[0].changes):
        unit = proposal[change].unit
        home = units[unit].home
        leaves = int(home == units[unit].owner) - int(home == proposal[change].node)
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
    allowed = within_budget(board.units, board.now, board.proposal) and fits(board)
    if allowed and board.units[unit].owner != node:
        shift(board, unit, node)
