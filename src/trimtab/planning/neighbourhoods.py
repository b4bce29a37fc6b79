"""Neighbourhoods: the ways in which a placement may change in one step of the search.

Each writes a proposal and returns whether it found one. Units are chosen by size: such that both nodes come into the
band that is aimed at.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import excess
from trimtab.planning.proposals import fits, forget, level_after, propose, within_budget

BOTH = 0.5
"""How often the second node is outside of the band, too, if the first one is."""
LARGEST = 8
"""The most changes of a proposal: a swap, what follows it, and units sent home to pay for it."""


@kernel
def chance(board):
    """The next random number from 0 to 1, excluding 1 (xorshift64, Marsaglia 2003)."""
    state = board.now[0].random
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    board.now[0].random = state
    return np.float64(state >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def one_of(board, count):
    """A random number below `count`."""
    return int(chance(board) * count)


@kernel
def window(board, source, target):
    """Between which amounts a load must be that goes from one node to another and leaves both in the band."""
    nodes, up, low = board.nodes, board.now[0].up, board.now[0].low
    least, most = -np.inf, np.inf
    if nodes[source].points > 0.0:
        level = level_after(board, source)
        least, most = (level - up) / nodes[source].points, (level + low) / nodes[source].points
    level = level_after(board, target)
    least = max(least, (-low - level) / nodes[target].points)
    return least, min(most, (up - level) / nodes[target].points)


@kernel
def at_least(board, node, work):
    """Where in a node's list the units of this load or more begin."""
    low = board.nodes[node].start
    high = low + board.nodes[node].count
    while low < high:
        middle = (low + high) >> 1
        if board.units[board.pool[middle]].work < work:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def unit_between(board, node, least, most, or_near):
    """A random unit of a node with such a load; if there is none, a neighbour in size or -1."""
    start, count = board.nodes[node].start, board.nodes[node].count
    if count == 0:
        return -1
    if least > most:  # no amount is right for both nodes: one between what each would like
        least = most = most + chance(board) * (least - most)
    begin, end = at_least(board, node, least), at_least(board, node, most)
    if end > begin:
        return board.pool[begin + one_of(board, end - begin)]
    if not or_near:
        return -1
    if begin == start + count or (begin > start and chance(board) < 0.5):
        return board.pool[begin - 1]
    return board.pool[begin]


@kernel
def propose_between(board, source, target):
    """Propose that a unit goes from one node to another, which brings both about into the band; False if none does."""
    least, most = window(board, source, target)
    unit = unit_between(board, source, least, most, True)
    if unit < 0 or is_proposed(board, unit):
        return False
    propose(board, unit, target)
    return True


@kernel
def is_proposed(board, unit):
    """Whether the proposal moves a unit already."""
    for change in range(board.now[0].changes):  # noqa: SIM110  (Numba compiles no `any` of a generator)
        if board.proposal[change].unit == unit:
            return True
    return False


@kernel
def extreme(board, sign, tries, other_than, outside):
    """Of a few random nodes, open or outside of the band, the fullest (sign 1) or the emptiest (-1), or node -1."""
    nodes, now, best = board.nodes, board.now, -1
    for _ in range(tries):
        place = one_of(board, now[0].outside if outside else now[0].open)
        node = nodes[place].nth_outside if outside else nodes[place].nth_open
        if node != other_than and (best < 0 or sign * nodes[node].level > sign * nodes[best].level):
            best = node
    return best


@kernel
def two_nodes(board):
    """A node to take from and one to give to, or -1: mostly one of them is outside of the band, and often both."""
    nodes, now = board.nodes, board.now
    outside = now[0].outside > 0 and chance(board) < 0.75
    node = extreme(board, 1.0, 1, -1, outside)
    sign = 1.0 if nodes[node].level > 0.0 else -1.0
    if sign < 0.0 and now[0].closed > 0 and now[0].closed_points > 0.0 and chance(board) < 0.5:
        return nodes[one_of(board, now[0].closed)].nth_closed, node
    other = extreme(board, -sign, 1 + one_of(board, 5), node, outside and chance(board) < BOTH)
    return (node, other) if sign > 0.0 else (other, node)


@kernel
def transfer(board):
    """One unit from a full node to an empty one."""
    source, target = two_nodes(board)
    return source >= 0 and target >= 0 and propose_between(board, source, target)


@kernel
def swap(board):
    """A unit for another one: how small differences are levelled."""
    source, target = two_nodes(board)
    if source < 0 or target < 0 or board.nodes[source].points == 0.0:
        return False
    least, most = window(board, source, target)
    if least > most:
        least, most = most, least
    for _ in range(min(4, board.nodes[source].count)):
        unit = board.pool[board.nodes[source].start + one_of(board, board.nodes[source].count)]
        work = board.units[unit].work
        back = unit_between(board, target, work - most, work - least, False)
        if back >= 0:
            propose(board, unit, target)
            propose(board, back, source)
            return True
    return False


@kernel
def replace(board):
    """Another unit of the same home instead of one that is away: as many moves, a different size."""
    if not send_home(board):
        return False
    unit = board.proposal[0].unit
    return propose_between(board, board.units[unit].home, board.units[unit].owner)


@kernel
def retarget(board):
    """Another node for a unit that is away already, or that has no home."""
    units, away, free = board.units, board.now[0].away, board.now[0].free
    if away + free == 0:
        return False
    chosen = one_of(board, away + free)
    unit = units[chosen].nth_away if chosen < away else units[chosen - away].nth_free
    node = extreme(board, -1.0, 1 + one_of(board, 4), units[unit].owner, False)
    if node < 0:
        return False
    propose(board, unit, node)
    return True


@kernel
def exchange(board):
    """Two units that are away change their nodes."""
    units, away = board.units, board.now[0].away
    if away < 2:
        return False
    one, other = units[one_of(board, away)].nth_away, units[one_of(board, away)].nth_away
    here, there = units[one].owner, units[other].owner
    if here == there:
        return False
    propose(board, one, there)
    propose(board, other, here)
    return True


@kernel
def send_home(board):
    """A unit that is away goes back, which frees budget."""
    if board.now[0].away == 0:
        return False
    unit = board.units[one_of(board, board.now[0].away)].nth_away
    propose(board, unit, board.units[unit].home)
    return True


@kernel
def next_proposal(board):
    """Write a random proposal that budget and room allow; False if none was found."""
    forget(board)
    way = chance(board)
    if way < 0.3:
        found = transfer(board)
    elif way < 0.5:
        found = swap(board)
    elif way < 0.7:
        found = replace(board)
    elif way < 0.85:
        found = retarget(board)
    elif way < 0.95:
        found = exchange(board)
    else:
        found = send_home(board)
    if not found:
        return False
    while board.now[0].changes < 4 and chance(board) < board.now[0].chain and follow_up(board):
        pass
    return pay(board) and fits(board)


@kernel
def follow_up(board):
    """Add a change to the proposal for the node that it would leave farthest outside of the band, if there is one.

    So a unit may push out another one: an ejection chain (Glover 1996).
    """
    nodes, now, proposal = board.nodes, board.now, board.proposal
    node, over = -1, 0.0
    for place in range(now[0].touched):
        touched = proposal[place].touched
        harm = excess(nodes[touched].level + proposal[place].by, now[0].up, now[0].low)
        if nodes[touched].points > 0.0 and harm > over:
            node, over = touched, harm
    if node < 0:
        return False
    sign = 1.0 if level_after(board, node) > 0.0 else -1.0
    other = extreme(board, -sign, 1 + one_of(board, 4), node, False)
    if chance(board) < 0.5:
        other = proposal[one_of(board, now[0].touched)].touched
    if other < 0 or other == node or nodes[other].points == 0.0:
        return False
    source, target = (node, other) if sign > 0.0 else (other, node)
    return propose_between(board, source, target)


@kernel
def pay(board):
    """Send units home, those that are missed the least, until the proposal is within the budget."""
    units, now = board.units, board.now
    while not within_budget(board):
        if now[0].changes == LARGEST or now[0].away == 0:
            return False
        best, least = -1, np.inf
        for _ in range(3):
            unit = units[one_of(board, now[0].away)].nth_away
            harm = _missed(board, unit)
            if harm < least:
                best, least = unit, harm
        if best < 0:
            return False
        propose(board, best, units[best].home)
    return True


@kernel
def _missed(board, unit):
    """By how many points nodes would be farther outside of the band with this unit at home; infinite if it moves."""
    if is_proposed(board, unit):
        return np.inf
    nodes, up, low = board.nodes, board.now[0].up, board.now[0].low
    owner, home, work = board.units[unit].owner, board.units[unit].home, board.units[unit].work
    here, there = level_after(board, owner), level_after(board, home)
    after = excess(here - work * nodes[owner].points, up, low) + excess(there + work * nodes[home].points, up, low)
    return after - excess(here, up, low) - excess(there, up, low)
