"""Tidy: undo moves that turned out to be needless, and empty closed nodes with what is left of the budget."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import aim, shift
from trimtab.planning.proposals import fits, gain, propose_only, within_budget


@kernel
def undo_needless_moves(board, up, low):
    """Send every unit home that isn't needed to keep all open nodes from `low` below to `up` above the mean.

    Units from closed nodes stay away. Light ones go home first: most needless moves are of those.
    """
    aim(board, up, low)
    units, nodes, now, proposal = board.units, board.nodes, board.now, board.proposal
    for unit in range(units.size):
        home = units[unit].home
        if units[unit].away_at < 0 or nodes[home].points == 0.0:
            continue
        propose_only(board, unit, home)
        if gain(nodes, now, proposal) >= 0.0 and fits(board):
            shift(board, unit, home)


@kernel
def clear_closed_nodes(board, up, low):
    """Move units off closed nodes, heaviest first, where budget and room allow and nodes stay in the band."""
    aim(board, up, low)
    units, nodes, now, proposal = board.units, board.nodes, board.now, board.proposal
    for unit in range(units.size - 1, -1, -1):
        if now[0].closed == 0 or now[0].away >= now[0].max_moves:
            return
        if nodes[units[unit].owner].points > 0.0:
            continue
        target = -1
        for place in range(now[0].open):
            node = nodes[place].nth_open
            if target >= 0 and nodes[node].level >= nodes[target].level:
                continue
            propose_only(board, unit, node)
            if gain(nodes, now, proposal) >= 0.0 and fits(board) and within_budget(units, now, proposal):
                target = node
        if target >= 0:
            shift(board, unit, target)
