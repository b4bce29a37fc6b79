"""Pieces: what moves as one. A unit alone is a piece; so are units that have to stay together.

Pieces are numbered by rising load, so that a list of them sorted by number is sorted by load too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.planning.problem import NEW, Float64Array, Int32Array, Int64Array, Problem

ALONE = -1
"""The label of a unit that is tied to no other."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of a problem as columns.

    works    (pieces,)        what a piece needs of the bottleneck, rising
    needs    (pieces, sides)  what it needs of the other resources
    homes    (pieces,)        the node that it would be on if nothing moved; NEW if it has to be put somewhere
    first    (pieces + 1,)    where its units begin in `members`
    members  (units,)         the units, piece by piece
    """

    works: Float64Array
    needs: Float64Array
    homes: Int64Array
    first: Int64Array
    members: Int64Array

    @classmethod
    def of(cls, problem: Problem, together: npt.ArrayLike | None = None) -> Pieces:
        """Tie units with the same label of 0 or more; -1 is alone.

        Units that live apart and have to be together get as their home the node that takes the least of the budget.

        >>> problem = Problem(loads=[3.0, 1.0, 2.0, 5.0], homes=[0, 1, 1, NEW], capacities=[10.0, 10.0])
        >>> pieces = Pieces.of(problem, [7, -1, 7, -1])
        >>> pieces.works.tolist(), pieces.homes.tolist(), pieces.members.tolist()
        ([1.0, 5.0, 5.0], [1, 0, -1], [1, 0, 2, 3])
        """
        piece_of = _numbered(problem, together)
        count = int(piece_of.max()) + 1 if problem.units else 0
        works = np.bincount(piece_of, weights=problem.work, minlength=count).astype(np.float64)
        # Of two that are equally heavy the one with the lower unit comes first, so that answers don't depend on labels.
        lowest = np.full(count, problem.units, dtype=np.int64)
        np.minimum.at(lowest, piece_of, np.arange(problem.units))
        order = np.lexsort((lowest, works))
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.arange(count)
        piece_of = rank[piece_of]
        members = np.argsort(piece_of, kind="stable").astype(np.int64)
        first = np.searchsorted(piece_of[members], np.arange(count + 1)).astype(np.int64)
        sides = np.arange(problem.loads.shape[1]) != problem.bottleneck
        needs = np.zeros((count, int(sides.sum())))
        np.add.at(needs, piece_of, problem.loads[:, sides])
        homes = problem.homes[members[first[:-1]]].astype(np.int64)
        for piece in np.flatnonzero(np.diff(first) > 1):
            homes[piece] = _home(problem, members[first[piece] : first[piece + 1]])
        return cls(works[order], needs, homes, first, members)

    @property
    def count(self) -> int:
        """How many pieces there are."""
        return len(self.works)

    def placement(self, owner: npt.NDArray[np.integer]) -> Int32Array:
        """The node of every unit, from the node of every piece."""
        nodes = np.empty(len(self.members), dtype=np.int32)
        nodes[self.members] = np.repeat(owner, np.diff(self.first))
        return nodes


def _numbered(problem: Problem, together: npt.ArrayLike | None) -> Int64Array:
    """A number for the piece of each unit, without gaps."""
    if together is None:
        return np.arange(problem.units, dtype=np.int64)
    labels = np.asarray(together)
    if labels.shape != (problem.units,) or (labels.size and not np.issubdtype(labels.dtype, np.integer)):
        message = f"together has the shape {labels.shape} and the type {labels.dtype}"
        raise BalanceError("plan.together", message, f"give {problem.units} whole numbers; {ALONE} is a unit alone")
    labels = labels.astype(np.int64)
    alone = labels < 0
    top = int(labels.max(initial=0)) + 1
    labels[alone] = top + np.arange(int(alone.sum()))
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _home(problem: Problem, units: Int64Array) -> int:
    """Where units that belong together are with the fewest moves, or at the least cost if moves have no limit."""
    homes = problem.homes[units]
    if np.all(homes == homes[0]):
        return int(homes[0])
    places = np.unique(homes[homes != NEW])
    places = places[problem.open_nodes[places]]
    if not len(places):
        return NEW
    here = homes[:, None] == places
    stay = here.sum(axis=0)
    saved = (here * problem.move_costs[units][:, None]).sum(axis=0)
    first, second = (stay, saved) if problem.max_moves is not None else (saved, stay)
    return int(places[np.lexsort((-second, -first))[0]])
