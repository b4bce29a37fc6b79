"""Tidy: take back what a search did for nothing, and empty closed nodes with what is left of the budget."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import aim, shift
from trimtab.planning.proposals import fits, forget, gain, propose, tally, within_budget


@kernel
def undo_needless_moves(board, up, low):
    """Send home every piece without which all open nodes are still from `low` below to `up` above the mean.

    Pieces from closed nodes stay away. Light ones go first: most of those are leftovers.
    """
    aim(board, up, low)
    pieces, nodes, now, draft = board.pieces, board.nodes, board.now, board.draft
    for piece in range(pieces.size):
        home = pieces[piece].home
        if pieces[piece].away_at < 0 or nodes[home].points == 0.0:
            continue
        forget(now)
        propose(now, draft, piece, home)
        tally(pieces, nodes, now, draft)
        if gain(nodes, now, draft) >= 0.0 and fits(board):
            shift(board, piece, home)


@kernel
def leave_nothing_behind(board, up, low):
    """Move pieces off closed nodes, heaviest first, where budget and room allow and nodes stay in the band."""
    aim(board, up, low)
    pieces, nodes, now, draft = board.pieces, board.nodes, board.now, board.draft
    for piece in range(pieces.size - 1, -1, -1):
        if now[0].closed == 0 or now[0].moves >= now[0].max_moves:
            return
        if nodes[pieces[piece].owner].points > 0.0:
            continue
        target = -1
        for place in range(now[0].open):
            node = nodes[place].nth_open
            if target >= 0 and nodes[node].level >= nodes[target].level:
                continue
            forget(now)
            propose(now, draft, piece, node)
            tally(pieces, nodes, now, draft)
            if gain(nodes, now, draft) >= 0.0 and fits(board) and within_budget(pieces, board.members, now, draft):
                target = node
        if target >= 0:
            shift(board, piece, target)
