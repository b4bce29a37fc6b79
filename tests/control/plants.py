"""Executors that read a batch: what they are given takes each of them as long as its speed says."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.control import next_shares


def read_batches(
    costs: Sequence[float], *, batches: int, hog: tuple[int, float, int, int] | None = None
) -> list[float]:
    """How long the slowest executor read each batch; `costs`: what a batch would take each of them alone.

    `hog`: an executor, by how much it is slower, and from which batch to which.
    """
    names = [f"{number:02}" for number in range(len(costs))]
    state, longest = next_shares(None, dict.fromkeys(names)), list[float]()
    for batch in range(batches):
        assert state is not None
        took = {name: cost * share for name, cost, share in zip(names, costs, state.shares, strict=True)}
        if hog is not None and hog[2] <= batch < hog[3]:
            took[names[hog[0]]] *= hog[1]
        longest.append(max(took.values()))
        state = next_shares(state, took)
    return longest
