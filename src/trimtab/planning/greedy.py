"""Greedy: what comes before a search, and what follows it. Every change is for the better, and none is taken back."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import aim, shift
from trimtab.planning.neighbourhoods import at_least
from trimtab.planning.proposals import fits, gain, propose_only, within_budget


@kernel
def worst_first(board):
    """Move units from the fullest node, or a closed one, to the emptiest until the budget is spent or none helps.

    Every move brings the farther of its two nodes closer to the mean; the unit is the one that brings both closest.
    Time O(nodes) a move.
    """
    units, nodes, now, pool = board.units, board.nodes, board.now, board.pool
    while now[0].away < now[0].max_moves:
        source = target = nodes[0].nth_open
        for place in range(now[0].open):
            node = nodes[place].nth_open
            if nodes[node].level > nodes[source].level:
                source = node
            if nodes[node].level < nodes[target].level:
                target = node
        if -nodes[target].level >= nodes[source].level:  # what is missing may come from a closed node
            for place in range(now[0].closed):
                node = nodes[place].nth_closed
                if nodes[node].count > 0 and units[pool[nodes[node].start + nodes[node].count - 1]].work > 0.0:
                    source = node
        unit = _best_unit(board, source, target)
        if unit < 0:
            return
        shift(board, unit, target)


@kernel
def _best_unit(board, source, target):
    """The unit that leaves the two nodes closest to the mean, if that is closer than they are; else -1."""
    nodes = board.nodes
    if nodes[source].count == 0 or source == target:
        return -1
    above, below = nodes[source].level, nodes[target].level
    ideal = (above - below) / (nodes[source].points + nodes[target].points)  # a closed source has 0 of both
    best, distance = -1, max(abs(above), abs(below)) * (1 - 1e-9)
    near = at_least(board, source, ideal)
    start, end = nodes[source].start, nodes[source].start + nodes[source].count
    for place in range(max(start, near - 2), min(end, near + 2)):
        unit = board.pool[place]
        work = board.units[unit].work
        after = max(abs(above - work * nodes[source].points), abs(below + work * nodes[target].points))
        if after < distance:
            propose_only(board, unit, target)
            if within_budget(board) and fits(board):
                best, distance = unit, after
    return best


@kernel
def undo_needless_moves(board, up, low):
    """Send every unit home that isn't needed to keep all open nodes from `low` below to `up` above the mean.

    Units from closed nodes stay away. Light ones go home first: most needless moves are of those.
    """
    aim(board, up, low)
    units = board.units
    for unit in range(units.size):
        home = units[unit].home
        if units[unit].away_at < 0 or board.nodes[home].points == 0.0:
            continue
        propose_only(board, unit, home)
        if gain(board) >= 0.0 and fits(board):
            shift(board, unit, home)


@kernel
def clear_closed_nodes(board, up, low):
    """Move units off closed nodes, heaviest first, where budget and room allow and nodes stay in the band."""
    aim(board, up, low)
    units, nodes, now = board.units, board.nodes, board.now
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
            if gain(board) >= 0.0 and fits(board) and within_budget(board):
                target = node
        if target >= 0:
            shift(board, unit, target)
