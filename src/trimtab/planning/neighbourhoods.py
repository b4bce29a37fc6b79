"""Neighbourhoods: the ways in which a placement may change in one step of the search.

Each writes a proposal and says whether it found one. Pieces are looked for by size: one that brings both of its nodes
into the band that is aimed at. Compiled: importing this imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import excess
from trimtab.planning.proposals import level_after, propose, tally, within_budget

BOTH = 0.5
"""How often the other node is looked for among those outside of the band too."""
LARGEST = 8
"""A proposal has at most so many changes: a swap, and pieces sent home to pay for it."""


@kernel
def chance(now):
    """The next random number from 0 to 1, excluding 1 (xorshift64, Marsaglia 2003)."""
    state = now[0].random
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    now[0].random = state
    return np.float64(state >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def one_of(now, count):
    """A random number below `count`."""
    return int(chance(now) * count)


@kernel
def window(nodes, now, source, source_level, target, target_level):
    """Between which amounts a load must be that goes from one node to another and leaves both in the band."""
    up, low = now[0].up, now[0].low
    least, most = -np.inf, np.inf
    if nodes[source].points > 0.0:
        least, most = (source_level - up) / nodes[source].points, (source_level + low) / nodes[source].points
    least = max(least, (-low - target_level) / nodes[target].points)
    return least, min(most, (up - target_level) / nodes[target].points)


@kernel
def at_least(pieces, nodes, pool, node, work):
    """Where in a node's list the pieces of this load or more begin."""
    low = nodes[node].start
    high = low + nodes[node].count
    while low < high:
        middle = (low + high) >> 1
        if pieces[pool[middle]].work < work:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def piece_between(board, node, least, most, or_near):
    """A random piece of a node with such a load; if there is none, a neighbour in size or -1."""
    pieces, nodes, now, pool = board.pieces, board.nodes, board.now, board.pool
    start, count = nodes[node].start, nodes[node].count
    if count == 0:
        return -1
    if least > most:  # no amount is right for both nodes: one between what each would like
        least = most = most + chance(now) * (least - most)
    begin = at_least(pieces, nodes, pool, node, least)
    end = at_least(pieces, nodes, pool, node, most)
    if end > begin:
        return pool[begin + one_of(now, end - begin)]
    if not or_near:
        return -1
    if begin == start + count or (begin > start and chance(now) < 0.5):
        return pool[begin - 1]
    return pool[begin]


@kernel
def extreme(nodes, now, sign, tries, other_than, outside):
    """Of a few random nodes, open or outside of the band, the fullest (sign 1) or the emptiest (-1), or node -1."""
    best = -1
    for _ in range(tries):
        place = one_of(now, now[0].outside if outside else now[0].open)
        node = nodes[place].nth_outside if outside else nodes[place].nth_open
        if node != other_than and (best < 0 or sign * nodes[node].level > sign * nodes[best].level):
            best = node
    return best


@kernel
def two_nodes(nodes, now):
    """A node to take from and one to give to: mostly one of them is outside of the band, and often both."""
    outside = now[0].outside > 0 and chance(now) < 0.75
    node = extreme(nodes, now, 1.0, 1, -1, outside)
    sign = 1.0 if nodes[node].level > 0.0 else -1.0
    if sign < 0.0 and now[0].closed > 0 and now[0].closed_points > 0.0 and chance(now) < 0.5:
        return nodes[one_of(now, now[0].closed)].nth_closed, node
    other = extreme(nodes, now, -sign, 1 + one_of(now, 5), node, outside and chance(now) < BOTH)
    if sign > 0.0:
        return node, other
    return other, node


@kernel
def transfer(board):
    """One piece from a full node to an empty one."""
    source, target = two_nodes(board.nodes, board.now)
    if source < 0 or target < 0:
        return False
    nodes = board.nodes
    least, most = window(nodes, board.now, source, nodes[source].level, target, nodes[target].level)
    piece = piece_between(board, source, least, most, True)
    if piece < 0:
        return False
    propose(board.now, board.draft, piece, target)
    return True


@kernel
def swap(board):
    """A piece for another one: how small differences are levelled."""
    source, target = two_nodes(board.nodes, board.now)
    if source < 0 or target < 0 or board.nodes[source].points == 0.0:
        return False
    nodes = board.nodes
    least, most = window(nodes, board.now, source, nodes[source].level, target, nodes[target].level)
    if least > most:
        least, most = most, least
    for _ in range(min(4, board.nodes[source].count)):
        piece = board.pool[board.nodes[source].start + one_of(board.now, board.nodes[source].count)]
        work = board.pieces[piece].work
        back = piece_between(board, target, work - most, work - least, False)
        if back >= 0:
            propose(board.now, board.draft, piece, target)
            propose(board.now, board.draft, back, source)
            return True
    return False


@kernel
def replace(board):
    """Another piece of the same home instead of one that is away: as many moves, a different size."""
    if board.now[0].away == 0:
        return False
    piece = board.pieces[one_of(board.now, board.now[0].away)].nth_away
    target, home = board.pieces[piece].owner, board.pieces[piece].home
    propose(board.now, board.draft, piece, home)
    nodes, work = board.nodes, board.pieces[piece].work
    above, below = nodes[home].level + work * nodes[home].points, nodes[target].level - work * nodes[target].points
    least, most = window(nodes, board.now, home, above, target, below)
    other = piece_between(board, home, least, most, True)
    if other < 0:
        return False
    propose(board.now, board.draft, other, target)
    return True


@kernel
def retarget(board):
    """Another node for a piece that is away already, or that has no home."""
    pieces, nodes, now = board.pieces, board.nodes, board.now
    away, free = now[0].away, now[0].free
    if away + free == 0:
        return False
    chosen = one_of(now, away + free)
    piece = pieces[chosen].nth_away if chosen < away else pieces[chosen - away].nth_free
    node = extreme(nodes, now, -1.0, 1 + one_of(now, 4), pieces[piece].owner, False)
    if node < 0:
        return False
    propose(board.now, board.draft, piece, node)
    return True


@kernel
def exchange(board):
    """Two pieces that are away change their nodes."""
    away = board.now[0].away
    if away < 2:
        return False
    pieces, now = board.pieces, board.now
    one, other = pieces[one_of(now, away)].nth_away, pieces[one_of(now, away)].nth_away
    here, there = pieces[one].owner, pieces[other].owner
    if here == there:
        return False
    propose(board.now, board.draft, one, there)
    propose(board.now, board.draft, other, here)
    return True


@kernel
def send_home(board):
    """A piece that is away goes back, which frees budget."""
    if board.now[0].away == 0:
        return False
    piece = board.pieces[one_of(board.now, board.now[0].away)].nth_away
    propose(board.now, board.draft, piece, board.pieces[piece].home)
    return True


@kernel
def follow_up(board):
    """Add a change to the proposal for the node that it would leave farthest outside of the band, if there is one.

    So a piece may push out another one: an ejection chain (Glover 1996).
    """
    pieces, nodes, now, draft = board.pieces, board.nodes, board.now, board.draft
    tally(pieces, nodes, now, draft)
    node, over = -1, 0.0
    for place in range(now[0].touched):
        touched = draft[place].touched
        harm = excess(nodes[touched].level + draft[place].by, now[0].up, now[0].low)
        if nodes[touched].points > 0.0 and harm > over:
            node, over = touched, harm
    if node < 0:
        return False
    level = level_after(nodes, now, draft, node)
    sign = 1.0 if level > 0.0 else -1.0
    other = extreme(nodes, now, -sign, 1 + one_of(now, 4), node, False)
    if chance(now) < 0.5:
        other = draft[one_of(now, now[0].touched)].touched
    if other < 0 or other == node or nodes[other].points == 0.0:
        return False
    source, target = (node, other) if sign > 0.0 else (other, node)
    least, most = window(
        nodes, now, source, level_after(nodes, now, draft, source), target, level_after(nodes, now, draft, target)
    )
    piece = piece_between(board, source, least, most, True)
    if piece < 0:
        return False
    for change in range(now[0].changes):
        if draft[change].piece == piece:
            return False
    propose(now, draft, piece, target)
    return True


@kernel
def pay(board):
    """Send pieces home, those that are missed the least, until the proposal is within the budget. Tallies it too."""
    pieces, nodes, now, draft = board.pieces, board.nodes, board.now, board.draft
    tally(pieces, nodes, now, draft)
    while not within_budget(pieces, board.members, now, draft):
        if now[0].changes == LARGEST or now[0].away == 0:
            return False
        best, least = -1, np.inf
        for _ in range(3):
            piece = pieces[one_of(now, now[0].away)].nth_away
            harm = _missed(pieces, nodes, now, draft, piece)
            if harm < least:
                best, least = piece, harm
        if best < 0:
            return False
        propose(now, draft, best, pieces[best].home)
        tally(pieces, nodes, now, draft)
    return True


@kernel
def _missed(pieces, nodes, now, draft, piece):
    """By how many points nodes would be farther outside of the band with this piece at home; infinite if it moves."""
    for change in range(now[0].changes):
        if draft[change].piece == piece:
            return np.inf
    up, low = now[0].up, now[0].low
    owner, home, work = pieces[piece].owner, pieces[piece].home, pieces[piece].work
    here, there = level_after(nodes, now, draft, owner), level_after(nodes, now, draft, home)
    after = excess(here - work * nodes[owner].points, up, low) + excess(there + work * nodes[home].points, up, low)
    return after - excess(here, up, low) - excess(there, up, low)
