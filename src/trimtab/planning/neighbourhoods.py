"""Neighbourhoods: the ways in which a placement may change in one step of the search.

Each writes a proposal and returns whether it found one. Units are chosen by size: such that both nodes come into the
band that is aimed at.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import excess
from trimtab.planning.proposals import fits, forget, level_after, propose, tally, within_budget

BOTH = 0.5
"""How often the second node is outside of the band, too, if the first one is."""
LARGEST = 8
"""The most changes of a proposal: a swap, what follows it, and units sent home to pay for it."""


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
def at_least(units, nodes, pool, node, work):
    """Where in a node's list the units of this load or more begin."""
    low = nodes[node].start
    high = low + nodes[node].count
    while low < high:
        middle = (low + high) >> 1
        if units[pool[middle]].work < work:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def unit_between(board, node, least, most, or_near):
    """A random unit of a node with such a load; if there is none, a neighbour in size or -1."""
    units, nodes, now, pool = board.units, board.nodes, board.now, board.pool
    start, count = nodes[node].start, nodes[node].count
    if count == 0:
        return -1
    if least > most:  # no amount is right for both nodes: one between what each would like
        least = most = most + chance(now) * (least - most)
    begin = at_least(units, nodes, pool, node, least)
    end = at_least(units, nodes, pool, node, most)
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
    """One unit from a full node to an empty one."""
    source, target = two_nodes(board.nodes, board.now)
    if source < 0 or target < 0:
        return False
    nodes = board.nodes
    least, most = window(nodes, board.now, source, nodes[source].level, target, nodes[target].level)
    unit = unit_between(board, source, least, most, True)
    if unit < 0:
        return False
    propose(board.now, board.proposal, unit, target)
    return True


@kernel
def swap(board):
    """A unit for another one: how small differences are levelled."""
    source, target = two_nodes(board.nodes, board.now)
    if source < 0 or target < 0 or board.nodes[source].points == 0.0:
        return False
    nodes = board.nodes
    least, most = window(nodes, board.now, source, nodes[source].level, target, nodes[target].level)
    if least > most:
        least, most = most, least
    for _ in range(min(4, board.nodes[source].count)):
        unit = board.pool[board.nodes[source].start + one_of(board.now, board.nodes[source].count)]
        work = board.units[unit].work
        back = unit_between(board, target, work - most, work - least, False)
        if back >= 0:
            propose(board.now, board.proposal, unit, target)
            propose(board.now, board.proposal, back, source)
            return True
    return False


@kernel
def replace(board):
    """Another unit of the same home instead of one that is away: as many moves, a different size."""
    if board.now[0].away == 0:
        return False
    unit = board.units[one_of(board.now, board.now[0].away)].nth_away
    target, home = board.units[unit].owner, board.units[unit].home
    propose(board.now, board.proposal, unit, home)
    nodes, work = board.nodes, board.units[unit].work
    above, below = nodes[home].level + work * nodes[home].points, nodes[target].level - work * nodes[target].points
    least, most = window(nodes, board.now, home, above, target, below)
    other = unit_between(board, home, least, most, True)
    if other < 0:
        return False
    propose(board.now, board.proposal, other, target)
    return True


@kernel
def retarget(board):
    """Another node for a unit that is away already, or that has no home."""
    units, nodes, now = board.units, board.nodes, board.now
    away, free = now[0].away, now[0].free
    if away + free == 0:
        return False
    chosen = one_of(now, away + free)
    unit = units[chosen].nth_away if chosen < away else units[chosen - away].nth_free
    node = extreme(nodes, now, -1.0, 1 + one_of(now, 4), units[unit].owner, False)
    if node < 0:
        return False
    propose(board.now, board.proposal, unit, node)
    return True


@kernel
def exchange(board):
    """Two units that are away change their nodes."""
    away = board.now[0].away
    if away < 2:
        return False
    units, now = board.units, board.now
    one, other = units[one_of(now, away)].nth_away, units[one_of(now, away)].nth_away
    here, there = units[one].owner, units[other].owner
    if here == there:
        return False
    propose(board.now, board.proposal, one, there)
    propose(board.now, board.proposal, other, here)
    return True


@kernel
def send_home(board):
    """A unit that is away goes back, which frees budget."""
    if board.now[0].away == 0:
        return False
    unit = board.units[one_of(board.now, board.now[0].away)].nth_away
    propose(board.now, board.proposal, unit, board.units[unit].home)
    return True


@kernel
def next_proposal(board):
    """Write a random proposal that budget and room allow; False if none was found."""
    forget(board.now)
    way = chance(board.now)
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
    while board.now[0].changes < 4 and chance(board.now) < board.now[0].chain and follow_up(board):
        pass
    return pay(board) and fits(board)


@kernel
def follow_up(board):
    """Add a change to the proposal for the node that it would leave farthest outside of the band, if there is one.

    So a unit may push out another one: an ejection chain (Glover 1996).
    """
    units, nodes, now, proposal = board.units, board.nodes, board.now, board.proposal
    tally(units, nodes, now, proposal)
    node, over = -1, 0.0
    for place in range(now[0].touched):
        touched = proposal[place].touched
        harm = excess(nodes[touched].level + proposal[place].by, now[0].up, now[0].low)
        if nodes[touched].points > 0.0 and harm > over:
            node, over = touched, harm
    if node < 0:
        return False
    level = level_after(nodes, now, proposal, node)
    sign = 1.0 if level > 0.0 else -1.0
    other = extreme(nodes, now, -sign, 1 + one_of(now, 4), node, False)
    if chance(now) < 0.5:
        other = proposal[one_of(now, now[0].touched)].touched
    if other < 0 or other == node or nodes[other].points == 0.0:
        return False
    source, target = (node, other) if sign > 0.0 else (other, node)
    least, most = window(
        nodes, now, source, level_after(nodes, now, proposal, source), target, level_after(nodes, now, proposal, target)
    )
    unit = unit_between(board, source, least, most, True)
    if unit < 0:
        return False
    for change in range(now[0].changes):
        if proposal[change].unit == unit:
            return False
    propose(now, proposal, unit, target)
    return True


@kernel
def pay(board):
    """Send units home, those that are missed the least, until the proposal is within the budget. Tallies it too."""
    units, nodes, now, proposal = board.units, board.nodes, board.now, board.proposal
    tally(units, nodes, now, proposal)
    while not within_budget(units, now, proposal):
        if now[0].changes == LARGEST or now[0].away == 0:
            return False
        best, least = -1, np.inf
        for _ in range(3):
            unit = units[one_of(now, now[0].away)].nth_away
            harm = _missed(units, nodes, now, proposal, unit)
            if harm < least:
                best, least = unit, harm
        if best < 0:
            return False
        propose(now, proposal, best, units[best].home)
        tally(units, nodes, now, proposal)
    return True


@kernel
def _missed(units, nodes, now, proposal, unit):
    """By how many points nodes would be farther outside of the band with this unit at home; infinite if it moves."""
    for change in range(now[0].changes):
        if proposal[change].unit == unit:
            return np.inf
    up, low = now[0].up, now[0].low
    owner, home, work = units[unit].owner, units[unit].home, units[unit].work
    here, there = level_after(nodes, now, proposal, owner), level_after(nodes, now, proposal, home)
    after = excess(here - work * nodes[owner].points, up, low) + excess(there + work * nodes[home].points, up, low)
    return after - excess(here, up, low) - excess(there, up, low)
